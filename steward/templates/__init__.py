"""Every template that the service offers: one file per template, found by name in this folder."""

from importlib import import_module
from pkgutil import iter_modules

from steward.templates.base import Template

# In the order of their ids: a template's file is named after its id. All other files of the folder are
# shared.
ALL: list[Template] = [
    import_module(f"{__name__}.{name}").TEMPLATE
    for name in sorted(module.name for module in iter_modules(__path__) if not module.ispkg)
    if name != "base"
]


def find(template_id: str) -> Template | None:
    """Returns the template with this id; None when this release offers none."""
    return next((template for template in ALL if template.template_id == template_id), None)
