/** The screen of each page, with the requests it starts with. The addresses are in pages.json. */

import Choose from "./screens/choose/Choose.svelte";
import { startList, startOne } from "./screens/automations/calls";
import { prefetchOverview } from "./screens/overview/calls";
import { startPreferences } from "./screens/account/calls";
import { startApproval, startQueue } from "./screens/approvals/calls";
import Overview from "./screens/overview/Overview.svelte";
import { startRuns } from "./screens/runs/calls";
import { prefetchRun } from "./screens/runs/followed_run.svelte";
import { startConnections } from "./screens/connections/calls";
import { startImport, startImports } from "./screens/imports/calls";
import { startGallery, startSetup } from "./screens/setup/calls";
import type { PageName, Route } from "./router.svelte";

export const routes: Partial<Record<PageName, Route>> = {
  // The overview and the components it shares are in the main bundle: fewer files load before the first row.
  overview: { screen: () => Promise.resolve({ default: Overview }), start: prefetchOverview },
  choose: { screen: () => Promise.resolve({ default: Choose }) },
  "sign-in": { screen: () => import("./screens/sign-in/SignIn.svelte"), open: true },
  "forgot-password": { screen: () => import("./screens/sign-in/ForgotPassword.svelte"), open: true },
  "reset-password": { screen: () => import("./screens/sign-in/ResetPassword.svelte"), open: true },
  unsubscribe: { screen: () => import("./screens/sign-in/Unsubscribe.svelte"), open: true },
  invitation: { screen: () => import("./screens/invitation/Invitation.svelte"), open: true },
  approvals: { screen: () => import("./screens/approvals/Approvals.svelte"), start: startQueue },
  review: { screen: () => import("./screens/approvals/ReviewAll.svelte") },
  approval: { screen: () => import("./screens/approvals/Approval.svelte"), start: startApproval },
  automations: { screen: () => import("./screens/automations/Automations.svelte"), start: startList },
  automation: { screen: () => import("./screens/automations/Automation.svelte"), start: startOne },
  "automation-tab": { screen: () => import("./screens/automations/Automation.svelte"), start: startOne },
  calendar: { screen: () => import("./screens/calendar/Calendar.svelte") },
  runs: { screen: () => import("./screens/runs/Runs.svelte"), start: startRuns },
  run: { screen: () => import("./screens/runs/Run.svelte"), start: ({ params }) => prefetchRun(params.id!) },
  "new-automation": { screen: () => import("./screens/templates/Gallery.svelte"), start: startGallery },
  setup: { screen: () => import("./screens/setup/Setup.svelte"), start: startSetup },
  connections: { screen: () => import("./screens/connections/Connections.svelte"), start: startConnections },
  "new-connection": { screen: () => import("./screens/connections/NewConnection.svelte") },
  connection: { screen: () => import("./screens/connections/ConnectionPage.svelte"), start: startConnections },
  people: { screen: () => import("./screens/people/People.svelte") },
  "closed-times": { screen: () => import("./screens/closed-times/ClosedTimes.svelte") },
  "audit-log": { screen: () => import("./screens/organization/AuditLog.svelte") },
  "api-access": { screen: () => import("./screens/organization/ApiAccess.svelte") },
  help: { screen: () => import("./screens/help/Help.svelte") },
  organization: { screen: () => import("./screens/organization/Organization.svelte") },
  imports: { screen: () => import("./screens/imports/Imports.svelte"), start: startImports },
  "new-import": { screen: () => import("./screens/imports/NewImport.svelte") },
  import: { screen: () => import("./screens/imports/Import.svelte"), start: startImport },
  account: { screen: () => import("./screens/account/Account.svelte") },
  "account-notifications": { screen: () => import("./screens/account/Notifications.svelte"), start: startPreferences },
  routes: { screen: () => import("./screens/organization/Routes.svelte") },
  "new-route": { screen: () => import("./screens/organization/NewRoute.svelte") },
  route: { screen: () => import("./screens/organization/RoutePage.svelte") },
  inbox: { screen: () => import("./screens/inbox/Inbox.svelte") },
};
