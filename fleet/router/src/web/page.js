page.unknown = { gets: null, updates: null, others: null, failed: null, refused: null, sent: 0, received: 0 };
const GETS = ["get", "gets", "gat", "gats", "lease-get", "metaget"], UPDATES = ["set", "add", "replace", "append", "prepend", "cas", "lease-set"];
const OTHERS = ["delete", "touch", "incr", "decr", "flushall"];
const sumOf = (servers, name) => servers.reduce((sum, server) => sum + server[name], 0);
page.fill = (point, delta, seconds) => {
  const rate = (ops) => ops.reduce((sum, op) => sum + delta(`op_${op}`), 0) / seconds;
  point.gets = rate(GETS);
  point.updates = rate(UPDATES);
  point.others = rate(OTHERS);
  const replied = delta("request_replied_count");
  point.failed = replied > 0 ? delta("request_error_count") / replied : null;
  const servers = point.status.servers, before = last().status.servers;
  const more = (name) => Math.max(0, sumOf(servers, name) - sumOf(before, name));
  const asked = more("requests") + more("refused");
  point.refused = asked > 0 ? more("errors") / asked : null;
};
page.degraded = ({ server_count, servers_out }) => servers_out ? `${servers_out} of ${server_count} servers out of service` : null;

const SERIES = [["get", "get"], ["update", "set, add, cas …"], ["delete", "delete"], ["touch", "touch"], ["arithmetic", "incr, decr"], ["flush", "flush_all"]];
function drawLatency() {
  byId("latency-note").textContent = "From reading a request until its reply arrives; one request at a time per connection, in the last 30 s";
  drawTimes("latency", SERIES, 1e4, 5, "10\u202fµs to 1\u202fs");
}
function drawConfig({ config }) {
  byId("config-note").textContent = config.file === null ? "On the command line" : config.file;
  const row = (name, value) => make("tr", null, make("td", null, name), make("td", null, value));
  const rows = [row("in effect for", age(config.age)), row("last load", `${age(config.tried)} ago`), row("loads", String(config.attempts)), row("rejected", String(config.failures)), row("MD5", config.md5)];
  put("config", make("table", null, make("tbody", null, ...rows)),
    ...(config.error === null ? [] : [make("p", { class: "note bad" }, `The last load failed; the previous configuration stays in effect: ${config.error}`)]),
    ...config.warnings.map((warning) => make("p", { class: "note" }, warning)));
}
/* What has come of a server since some seconds ago: servers of a new configuration have no past. */
function rateOf(server, name) {
  const first = seen[Math.max(0, seen.length - 1 - 5)];
  const seconds = last().at - first.at, then = first.status.servers.find((one) => one.server === server.server);
  return seconds > 0 && then ? Math.max(0, server[name] - then[name]) / seconds : 0;
}
const trouble = (server) => server.tko !== null ? 3 : server.states.down > 0 ? 2 : server.failures_in_a_row > 0 ? 1 : 0;
function stateOf(server) {
  if (server.tko !== null) return server.tko === "hard" ? "failed: unreachable" : "failed: no replies";
  return ["up", "down", "new", "closed"].filter((state) => server.states[state] > 0).map((state) => `${server.states[state]} ${state}`).join(", ");
}
const SERVERS_SHOWN = 25;
let showsAllServers = false;
function drawServers(status) {
  const { servers, servers_out: out } = status;
  byId("servers-note").textContent = `${status.server_count} servers${out ? `, ${out} out of service` : ""}. Failed servers come first, then the busiest ones. Each thread has a connection to each server (threads: ${status.stats.num_proxies}).`;
  if (!servers.length) {
    put("servers", make("p", { class: "empty" }, "No route names a pool with servers."));
    return;
  }
  const rated = servers.map((server) => ({ ...server, rate: rateOf(server, "requests"), failing: rateOf(server, "errors") }));
  rated.sort((one, other) => trouble(other) - trouble(one) || other.rate - one.rate);
  const most = Math.max(...rated.map((server) => server.rate), 1);
  const shown = showsAllServers ? rated : rated.slice(0, SERVERS_SHOWN);
  const button = make("button", { type: "button" }, showsAllServers ? `The first ${SERVERS_SHOWN}` : `All ${rated.length} servers`);
  button.addEventListener("click", () => { showsAllServers = !showsAllServers; draw(); byId("servers").querySelector("button").focus(); });
  put("servers", table(["", "state", "latency", "requests", "failures", "hits", "waiting", "under way", "share"], shown.map((server) => {
    const reads = server.found + server.notfound;
    return [server.server, make("td", { class: trouble(server) > 1 ? "bad" : "" }, stateOf(server)), server.latency_us === null ? "\u2013" : text(time(server.latency_us * 1000)),
      `${text(count(Math.round(server.rate)))}/s`, make("td", { class: server.failing > 0 ? "bad" : "" }, `${text(count(server.failing))}/s`), reads ? text(percent(server.found / reads)) : "\u2013",
      text(count(server.pending)), text(count(server.inflight)), bar(server.rate / most)];
  })), rated.length > SERVERS_SHOWN ? button : "");
}
function drawPools({ pools }) {
  if (!pools.length) {
    put("pools", make("p", { class: "empty" }, "No route names a pool."));
    return;
  }
  put("pools", table(["", "servers", "out of service", "requests", "failures"], pools.map((pool) => [pool.pool, String(pool.servers),
    make("td", { class: pool.tko > 0 ? "bad" : "" }, String(pool.tko)), text(count(pool.requests)), pool.requests + pool.refused ? text(percent(pool.errors / (pool.requests + pool.refused))) : "\u2013"])));
}
function drawTiles(status) {
  const { stats, config, servers } = status, now = last();
  const requests = lately((point) => point.gets === null ? null : point.gets + point.updates + point.others), rate = requests[requests.length - 1];
  tile("t-requests", "Requests per second", rate === null ? ["\u2013", ""] : count(Math.round(rate)), `${text(count(stats.proxy_reqs_processing))} under way`, requests);
  const replied = stats.request_replied_count, ratio = replied ? stats.request_success_count / replied : null;
  const fine = now.failed === null ? ratio : 1 - now.failed;
  tile("t-success", "Success rate", fine === null ? ["\u2013", ""] : percent(fine), ratio === null ? "no requests yet" : `${text(percent(ratio))} since the start`,
    lately((point) => point.failed === null ? null : 1 - point.failed));
  tileOfGets();
  const inService = (point) => point.status.server_count - point.status.servers_out;
  tile("t-servers", "Servers in service", [String(inService(now)), ""], `of ${status.server_count}; ${text(count(sumOf(servers, "inflight")))} requests under way`, lately(inService));
  tile("t-config", "Configuration", [config.error === null ? age(config.age) : "rejected", ""], config.error === null ? `in effect; ${config.failures} rejected` : "the previous one is in effect", []);
  tile("t-clients", "Clients", count(stats.num_client_connections), `${stats.num_servers_up} connections to servers`, lately((point) => point.status.stats.num_client_connections));
}
page.draw = ({ status }) => {
  byId("about").textContent = [`${status.version}, up ${age(status.stats.uptime)}`, `service ${status.service}`, `router ${status.router}`].join(" \u00b7 ");
  drawTiles(status);
  chart("throughput", [["gets", "gets"], ["stores", "updates"], ["others", "others"]], UNITS.rate, "Gets, stores and other requests per second");
  chart("failures", [["clients", "failed"], ["servers", "refused"]], UNITS.share, "Share of requests that failed", { least: 0.01 });
  drawLatency();
  drawConfig(status);
  drawServers(status);
  drawPools(status);
};
