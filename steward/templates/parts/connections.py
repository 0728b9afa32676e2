"""Which kinds of connection meet what a template needs."""

from steward.connectors import kinds_receiving
from steward.connectors.base.connector import Receivable

# The kinds of connection an automation can run on.
STORES = ("shopify", "woocommerce")


def accepted_kinds(need: str) -> tuple[str, ...]:
    """Returns the kinds of connection that meet a need by its public name.

    `store` is any store, `teams` any connection that receives messages; each other need is one kind.
    """
    if need == "store":
        return STORES
    if need == "teams":
        return kinds_receiving(Receivable.MESSAGE)
    return (need,)
