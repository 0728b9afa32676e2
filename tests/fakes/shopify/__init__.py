"""A fake Shopify, built on the platform's own schema, for every test that needs a store of that kind.

How to use it in one process:

    store = ShopifyFake("teapots.myshopify.com", now=clock.now)   # tests/fakes/shopify/store.py
    store.add_product("Teapot", price="19.00", sku="T-1", stock=4)     # or store.seed(products=50, orders=40)
    transport = beside(world.transport, store)                       # tests/fakes/shopify/network.py
    wired = await app.build(settings, clock=clock, transport=transport)
    await shop.connect("shopify", store.settings)                    # by client id and secret

It answers `POST /admin/oauth/access_token`, `POST /admin/api/<version>/graphql.json` and the results of
bulk operations; every document is validated against the schema of the version in its path and executed.
Shown as the platform does: the bucket of points and THROTTLED, the cost of each call, scopes by the
schema's own list, `@idempotent` with a table of keys kept for 24 h, compare-and-swap, userErrors,
deliveries signed with the client secret.

`store.ledger.writes` are the changes that arrived, in the form of the sandbox's ledger;
`store.faults.make({...})` makes a call go wrong as there: path `**/graphql.json`, and `operation` in the
fault to hit one document alone. A field the fake does not keep fails loudly: add it to `objects.py`.

The schema files are no part of the repository: `make` fetches them (schema.py); without them tests that use
the fake are skipped loudly.

See docs/design/fake-platforms.md#control.
"""
