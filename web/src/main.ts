/** The entry point: sets the colour scheme before the first paint, loads the session, then renders the app. */

import "./tokens.css";
import "./base.css";
import "./lib/preferences.svelte";
import { mount } from "svelte";
import App from "./App.svelte";
import { session } from "./api/session.svelte";
import { router } from "./router.svelte";
import { routes } from "./routes";

router.start(routes);
void session.load();
// Loads the screen's code and sends its first requests while the session loads.
const { currentRoute } = router;
const record = currentRoute && routes[currentRoute.page];
void record?.screen().catch(() => undefined);
if (currentRoute && session.likely) record?.prefetch?.(currentRoute);

mount(App, { target: document.getElementById("app")! });
