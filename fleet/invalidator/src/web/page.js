page.unknown = { transactions: null, deletes: null, lag: null };
page.fill = (point, delta, seconds) => {
  point.transactions = delta("transactions") / seconds;
  point.deletes = delta("deletes") / seconds;
  point.lag = point.status.lag;
};
page.degraded = ({ targets }) => {
  const down = targets.filter((target) => !target.is_up).length;
  return down ? `${down} of ${targets.length} targets ${down === 1 ? "is" : "are"} down` : null;
};
function drawTargets({ targets }) {
  put("targets", table(["", "state", "deletes", "hits", "batches", "failures", "rejected"], targets.map((target) => [
    target.name, make("td", { class: target.is_up ? "" : "bad" }, target.is_up ? "up" : "down"), text(count(target.deletes)),
    target.deletes ? text(percent(target.hits / target.deletes)) : "\u2013", text(count(target.target_batches)), text(count(target.target_failures)), text(count(target.rejected))])));
}
page.draw = (now) => {
  const { status } = now, { stats, targets } = status;
  const rate = (name) => now[name] === null ? ["\u2013", ""] : count(Math.round(now[name])), up = targets.filter((target) => target.is_up).length;
  byId("about").textContent = status.version;
  tile("t-lag", "Lag", [age(status.lag), ""], status.lag_bytes === null ? "of the oldest change" : `of the oldest change; ${text(bytes(status.lag_bytes))} of the log unread`, lately((point) => point.status.lag));
  tile("t-transactions", "Transactions per second", rate("transactions"), `${text(count(stats.transactions))} since the start`, lately((point) => point.transactions));
  tile("t-deletes", "Deletes per second", rate("deletes"), `${text(count(stats.deletes))} since the start`, lately((point) => point.deletes));
  tile("t-targets", "Targets up", [String(up), ""], `of ${targets.length}`, []);
  chart("throughput", [["transactions", "transactions"], ["deletes", "deletes"]], UNITS.rate, "Transactions and deletes per second");
  chart("lag", [["lag", "lag"]], UNITS.seconds, "Lag in seconds", { least: 1 });
  drawTargets(status);
  byId("missed").textContent = `${stats.refused_keys} invalid keys, ${stats.unfilled_templates} rows without a key for a template, ${stats.unseen_statements} statements without rows`;
};
