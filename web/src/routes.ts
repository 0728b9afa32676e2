/** The screen of each page, with the requests it starts with. The addresses are in pages.json. */

import Choose from "./screens/choose/Choose.svelte";
import { prefetchAutomations, prefetchAutomation } from "./screens/automations/calls";
import { prefetchOverview } from "./screens/overview/calls";
import { prefetchPreferences } from "./screens/account/calls";
import { prefetchApproval, prefetchApprovals } from "./screens/approvals/calls";
import Overview from "./screens/overview/Overview.svelte";
import { prefetchRuns } from "./screens/runs/calls";
import { prefetchRun } from "./screens/runs/followed_run.svelte";
import { prefetchConnections } from "./screens/connections/calls";
import { prefetchImport, prefetchImports } from "./screens/imports/calls";
import { prefetchGallery, prefetchSetup } from "./screens/setup/calls";
import type { PageName, RouteRecord } from "./router.svelte";

export const routes: Partial<Record<PageName, RouteRecord>> = {
  // The overview and the components it shares are in the main bundle: fewer files load before the first row.
  overview: { screen: () => Promise.resolve({ default: Overview }), prefetch: prefetchOverview },
  choose: { screen: () => Promise.resolve({ default: Choose }) },
  "sign-in": { screen: () => import("./screens/sign-in/SignIn.svelte"), isPublic: true },
  "forgot-password": { screen: () => import("./screens/sign-in/ForgotPassword.svelte"), isPublic: true },
  "reset-password": { screen: () => import("./screens/sign-in/ResetPassword.svelte"), isPublic: true },
  unsubscribe: { screen: () => import("./screens/sign-in/Unsubscribe.svelte"), isPublic: true },
  invitation: { screen: () => import("./screens/invitation/Invitation.svelte"), isPublic: true },
  approvals: { screen: () => import("./screens/approvals/Approvals.svelte"), prefetch: prefetchApprovals },
  review: { screen: () => import("./screens/approvals/ReviewAll.svelte") },
  approval: { screen: () => import("./screens/approvals/Approval.svelte"), prefetch: prefetchApproval },
  automations: { screen: () => import("./screens/automations/Automations.svelte"), prefetch: prefetchAutomations },
  automation: { screen: () => import("./screens/automations/Automation.svelte"), prefetch: prefetchAutomation },
  "automation-tab": { screen: () => import("./screens/automations/Automation.svelte"), prefetch: prefetchAutomation },
  calendar: { screen: () => import("./screens/calendar/Calendar.svelte") },
  runs: { screen: () => import("./screens/runs/Runs.svelte"), prefetch: prefetchRuns },
  run: { screen: () => import("./screens/runs/Run.svelte"), prefetch: ({ params }) => prefetchRun(params.id!) },
  "new-automation": { screen: () => import("./screens/templates/Gallery.svelte"), prefetch: prefetchGallery },
  setup: { screen: () => import("./screens/setup/Setup.svelte"), prefetch: prefetchSetup },
  connections: { screen: () => import("./screens/connections/Connections.svelte"), prefetch: prefetchConnections },
  "new-connection": { screen: () => import("./screens/connections/NewConnection.svelte") },
  connection: { screen: () => import("./screens/connections/ConnectionPage.svelte"), prefetch: prefetchConnections },
  people: { screen: () => import("./screens/people/People.svelte") },
  "closed-times": { screen: () => import("./screens/closed-times/ClosedTimes.svelte") },
  "audit-log": { screen: () => import("./screens/organization/AuditLog.svelte") },
  "api-access": { screen: () => import("./screens/organization/ApiAccess.svelte") },
  help: { screen: () => import("./screens/help/Help.svelte") },
  organization: { screen: () => import("./screens/organization/Organization.svelte") },
  imports: { screen: () => import("./screens/imports/Imports.svelte"), prefetch: prefetchImports },
  "new-import": { screen: () => import("./screens/imports/NewImport.svelte") },
  import: { screen: () => import("./screens/imports/Import.svelte"), prefetch: prefetchImport },
  account: { screen: () => import("./screens/account/Account.svelte") },
  "account-notifications": { screen: () => import("./screens/account/Notifications.svelte"), prefetch: prefetchPreferences },
  routes: { screen: () => import("./screens/organization/Routes.svelte") },
  "new-route": { screen: () => import("./screens/organization/NewRoute.svelte") },
  route: { screen: () => import("./screens/organization/RoutePage.svelte") },
  inbox: { screen: () => import("./screens/inbox/Inbox.svelte") },
};
