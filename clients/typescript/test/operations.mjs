// Calls each operation of the API that a token may call; approving and rejecting are for people.
export async function callEveryOperation(steward, body, { sheet, content }) {
  const { api } = steward;
  const call = (answer) => steward.data(answer);
  const query = (values) => ({ params: { query: values } });
  await call(api.GET("/v1/automations/status"));
  const { templates } = await call(api.GET("/v1/automations/templates", query({ limit: 5 })));
  await call(api.GET("/v1/automations/templates/{template_id}", { params: { path: { template_id: templates[0].template_id } } }));
  await call(api.GET("/v1/automations/stores"));
  await call(api.GET("/v1/automations/connections"));
  await call(api.GET("/v1/automations/destinations", query({ integration_id: sheet })));
  const daily = { schedule: { cadence: "daily", run_at: "08:00" }, timezone: "UTC" };
  await call(api.POST("/v1/automations/schedule/preview", { body: daily }));
  const imported = await importAndRun(steward, content, body.schedule);

  let { automation } = await call(api.POST("/v1/automations", { body: { ...body, name: "Each operation" } }));
  const params = { path: { automation_id: automation.id } };
  ({ automation } = await call(api.PATCH("/v1/automations/{automation_id}", { params, body: { version: automation.version, ...daily } })));
  const { occurrences } = await call(api.GET("/v1/automations/occurrences", query({ automation_id: automation.id })));
  const [{ slot_at, run_at, version: occurrence_version }] = occurrences;
  const later = new Date(Date.parse(run_at) + 3600_000).toISOString().replace(".000Z", "Z");
  let edit = { slot_at, occurrence_version, automation_version: automation.version };
  for (const [verb, more] of [["move", { run_at: later, scope: "this" }], ["skip", {}], ["unskip", {}]]) {
    const edited = await call(api.POST(`/v1/automations/{automation_id}/occurrences/${verb}`, { params, body: { ...edit, ...more } }));
    edit = { slot_at, occurrence_version: edited.occurrence.version, automation_version: edited.automation.version };
  }
  ({ automation } = await call(api.GET("/v1/automations/{automation_id}", { params })));
  for (const verb of ["pause", "resume", "archive", "restore", "resume"]) {
    const { version } = automation;
    ({ automation } = await call(api.POST(`/v1/automations/{automation_id}/${verb}`, { params, body: { version } })));
  }
  const started = await call(api.POST("/v1/automations/{automation_id}/runs", { params, body: { mode: "live" } }));
  const run = await steward.waitFor(started.run);
  const ofRun = { params: { path: { run_id: run.id } } };
  const { changes } = await call(api.GET("/v1/automations/runs/{run_id}/changes", ofRun));
  const { runs } = await call(api.GET("/v1/automations/runs", query({ automation_id: automation.id })));
  const { approvals } = await call(api.GET("/v1/automations/approvals"));
  const { approval } = await call(api.GET("/v1/automations/approvals/{approval_id}", { params: { path: { approval_id: run.approval_id } } }));
  const cancelled = await call(api.POST("/v1/automations/runs/{run_id}/cancel", ofRun));
  const undo = await api.POST("/v1/automations/runs/{run_id}/undo", { ...ofRun, body: {} }).then(() => null, (error) => error.name);
  const listed = await call(api.GET("/v1/automations", query({ limit: 200, state: ["active", "draft"] })));
  return {
    run: [run.status, cancelled.run.status, runs.length, undo],
    isWaiting: approvals.some(({ id }) => id === approval.id),
    isCounted: approval.changes_total === changes.length,
    isListed: [automation.id, imported].every((id) => listed.automations.some((one) => one.id === id)),
  };
}

async function importAndRun(steward, content, schedule) {
  const { api } = steward;
  const call = (answer) => steward.data(answer);
  const source = "workflow_tool";
  const kept = (await call(api.POST("/v1/automations/imports", { body: { source, name: "Tell", content } }))).import;
  const params = { path: { import_id: kept.id } };
  await call(api.GET("/v1/automations/imports", { params: { query: { supported: true } } }));
  await call(api.GET("/v1/automations/imports/{import_id}", { params }));
  await call(api.POST("/v1/automations/imports/{import_id}/preview", { params, body: {} }));
  await call(api.POST("/v1/automations/imports/preview", { body: { source, content } }));
  const { automation } = await call(api.POST("/v1/automations/imports/{import_id}/automations", { params, body: { name: "Tell", schedule } }));
  await call(api.DELETE("/v1/automations/imports/{import_id}", { params }));
  return automation.id;
}
