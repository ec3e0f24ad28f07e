/* What follows from two neighbours of what was seen. */
const UNKNOWN = { transactions: null, deletes: null };
function fill(point, delta, seconds) {
  point.transactions = delta("transactions") / seconds;
  point.deletes = delta("deletes") / seconds;
}
function drawTargets({ targets }) {
  put("targets", table(["", "state", "deletes", "hits", "batches", "failures", "rejected"], targets.map((target) => [
    target.name, make("td", { class: target.is_up ? "" : "bad" }, target.is_up ? "up" : "away"), text(count(target.deletes)),
    target.deletes ? text(percent(target.hits / target.deletes)) : "\u2013", text(count(target.target_batches)), text(count(target.target_failures)), text(count(target.rejected))])));
}
function draw() {
  const last = seen[seen.length - 1];
  if (!last) return;
  const { status } = last, { stats, targets } = status, column = (name) => seen.map((point) => point[name]);
  const rate = (name) => last[name] === null ? ["\u2013", ""] : count(Math.round(last[name])), up = targets.filter((target) => target.is_up).length;
  byId("about").textContent = status.version;
  tile("t-lag", "Lag", [age(status.lag), ""], status.lag_bytes === null ? "of the oldest change that is under way" : `of the oldest change that is under way; ${text(bytes(status.lag_bytes))} of the log to do`, seen.map((point) => point.status.lag).slice(-60));
  tile("t-transactions", "Transactions each second", rate("transactions"), `${text(count(stats.transactions))} since the start`, column("transactions").slice(-60));
  tile("t-deletes", "Deletes each second", rate("deletes"), `${text(count(stats.deletes))} since the start`, column("deletes").slice(-60));
  tile("t-targets", "Targets that are up", [String(up), ""], `of ${targets.length}`, []);
  chart("throughput", [{ name: "transactions", of: column("transactions") }, { name: "deletes", of: column("deletes") }], (value) => neat(count(value)), null, "Transactions and deletes each second");
  drawTargets(status);
  byId("missed").textContent = `${stats.refused_keys} keys that no cache can have, ${stats.unfilled_templates} rows without a key for a template, ${stats.unseen_statements} statements without rows`;
}
async function fetchMore() { /* Everything is in status.json. */ }
