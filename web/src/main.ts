/** Start: light or dark before the first paint, who is signed in, then the screen. */

import "./tokens.css";
import "./base.css";
import "./lib/preferences.svelte";
import { mount } from "svelte";
import App from "./App.svelte";
import { session } from "./api/session.svelte";
import { router } from "./router.svelte";
import { routes } from "./routes";

router.begin(routes);
void session.load();
// The screen's code and calls are asked for together with the session.
const { place } = router;
const route = place && routes[place.page];
void route?.screen().catch(() => undefined);
if (place && session.likely) route?.start?.(place);

mount(App, { target: document.getElementById("app")! });
