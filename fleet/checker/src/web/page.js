function row(delay, name, it) {
  const nines = it.nines === null ? "\u2013" : (it.inconsistent ? "" : ">") + it.nines.toFixed(1);
  return [delay, name, text(count(it.consistent)), text(count(it.missing)),
    make("td", { class: it.inconsistent ? "bad" : "" }, text(count(it.inconsistent))), text(count(it.unknown)), text(count(it.superseded)),
    it.share === null ? "\u2013" : text(percent(it.share)), nines];
}
function drawLooks({ delays, clusters, regions }) {
  const rows = delays.flatMap((at) => [row(`${at.delay} s`, "all", at.all),
    ...at.regions.map((it, number) => row("", `region ${regions[number]}`, it)),
    ...at.clusters.map((it, number) => row("", clusters[number].name, it))]);
  put("looks", table(["after", "", "consistent", "missing", "inconsistent", "unknown", "superseded", "share", "nines"], rows));
}
page.degraded = ({ clusters }) => {
  const silent = clusters.filter((cluster) => !cluster.is_up).length;
  return silent ? `${silent} of ${clusters.length} clusters do not answer` : null;
};
page.draw = ({ status }) => {
  const up = status.clusters.filter((cluster) => cluster.is_up).length;
  byId("about").textContent = status.version;
  tile("t-hints", "Hints", count(status.hints), `${status.unmatched} without a check`, []);
  tile("t-sampled", "Sampled", count(status.sampled), `${status.under_way} under way, ${status.dropped} dropped`, []);
  tile("t-wrong", "Inconsistencies", count(status.examples.length + status.more_examples), "of a key in a cluster", []);
  tile("t-clusters", "Clusters up", [String(up), ""], `of ${status.clusters.length}`, []);
  drawLooks(status);
  byId("missed").textContent = `${status.untold} changes were visible in the database before their hint`;
  put("examples", table(["key", "cluster", "hint", "the cache has", "instead of", "seen after"], status.examples.map((it) => [
    it.key, it.cluster, new Date(it.told * 1000).toISOString(), it.cache, it.truth, `${it.seen[0]} to ${it.seen[1]} s`])));
};
