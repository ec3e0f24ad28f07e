const OTHERS = ["cmd_touch", "delete_hits", "delete_misses", "incr_hits", "incr_misses", "decr_hits", "decr_misses", "cmd_meta"];
page.unknown = { gets: null, sets: null, others: null, hits: null, read: 0, written: 0, evicted: 0, busy: null };
page.fill = (point, delta, seconds) => {
  point.gets = delta("cmd_get") / seconds;
  point.sets = delta("cmd_set") / seconds;
  point.others = OTHERS.reduce((sum, name) => sum + delta(name), 0) / seconds;
  const found = delta("get_hits"), missed = delta("get_misses");
  point.hits = found + missed > 0 ? found / (found + missed) : null;
  point.read = delta("bytes_read") / seconds;
  point.written = delta("bytes_written") / seconds;
  point.evicted = delta("evictions") / seconds;
  point.busy = (delta("rusage_user") + delta("rusage_system")) / seconds;
};

const SERIES = [["get", "get"], ["set", "set"], ["delete", "delete"], ["touch", "touch, gat"], ["arithmetic", "incr, decr"], ["lease", "leases"],
  ["other", "other"], ["queue", "waiting in a worker"], ["round", "a worker\u2019s round"]];
function drawLatency() {
  byId("latency-note").textContent = "From reading a request until its reply is ready; a sample of the last 30 s";
  drawTimes("latency", SERIES, 100, 5, "0.1\u202fµs to 10\u202fms");
}
function drawCurve(mrc) {
  const note = byId("mrc-note");
  if (!mrc || !mrc.policies.some((one) => one.hit_ratios.some((ratio) => ratio !== null))) {
    note.textContent = "Estimated from a sample of the requests";
    noPlot("mrc", mrc === null
      ? "This server has no estimate: disable-advice is set, or its memory is too small for it."
      : "No data yet. The server estimates the curve from a sample of its requests; a new cache needs some minutes.");
    return;
  }
  note.textContent = `Estimated from ${text(count(mrc.sampled_reads))} sampled reads of ${text(count(mrc.reads))} in the last ${age(mrc.seconds)}`;
  const misses = mrc.policies.map((one) => ({ ...one, name: one.policy.split(":")[0], ratios: one.hit_ratios.map((ratio) => ratio === null ? null : 1 - ratio) }));
  const all = misses.flatMap((one) => one.ratios).filter((ratio) => ratio !== null);
  if (mrc.measured !== null) all.push(1 - mrc.measured);
  const { scales } = mrc, now = scales.indexOf(1), served = misses.find((one) => one.served);
  const best = misses.filter((one) => one.ratios[now] !== null && !one.served).sort((one, other) => one.ratios[now] - other.ratios[now])[0];
  const times = (scale) => `${scale === 0.5 ? "½" : scale} ×`;
  const axis = { gap: Infinity, ruled: true, ticks: scales.map((scale) => [scale, times(scale), "middle"]), title: (scale) => `Misses with ${times(scale)} the memory`,
    share: (scale) => 0.04 + 0.92 * Math.log2(scale / scales[0]) / Math.log2(scales[scales.length - 1] / scales[0]) };
  const line = (one) => ({ name: one.served ? `${one.name} (in use)` : one.name, style: one.served ? 1 : one === best ? 2 : 0, of: (point) => one.ratios[point.index] });
  // Later lines are drawn over earlier ones.
  const lines = misses.map(line).sort((one, other) => (one.style || 9) - (other.style || 9)).reverse();
  plot("mrc", { points: scales.map((at, index) => ({ at, index })), lines, axis, unit: UNITS.share, high: Math.min(1, ceiling(Math.max(...all, 0.01))), height: 240,
    label: "Share of reads that miss, by memory and policy", extra: (svg, x, y) => {
      const own = mrc.measured !== null ? 1 - mrc.measured : served && served.ratios[now];
      if (own === null || own === undefined) return;
      svg.append(make("circle", { class: "here", cx: x(1), cy: y(own), r: 5.5 }));
      // On the side of the point on which the curve is not.
      const below = served && y(own) - y(served.ratios[now]) > 12 && y(own) < 240 - 24 - 24;
      svg.append(make("text", { class: "halo", x: x(1) + 9, y: below ? y(own) + 20 : Math.max(TOP + 10, y(own) - 11) }, `now: ${text(percent(own))}`));
    } });
  // Less by more than chance: two standard errors.
  const gain = best && served ? served.ratios[now] - best.ratios[now] : 0;
  byId("mrc").append(make("figcaption", null, gain > 2 * (mrc.uncertainty[now] || 0)
    ? `The policy ${best.policy.split(":")[0]} would miss ${text(percent(gain))} less of all reads with the same memory.`
    : "No other policy is known to miss less with the same memory."));
}
function drawMemory(status) {
  const { memory, stats } = status, spare = Math.max(0, memory.engine_limit - memory.engine_used);
  byId("memory-note").textContent = `${text(bytes(memory.limit))} for the whole process; ${text(bytes(memory.resident))} are resident`;
  const parts = [
    ["items", memory.engine_used - memory.index], ["index", memory.index], ["free for items and index", spare],
    ...memory.parts.filter((part) => part.part !== "items and index").map((part) => [part.part, part.bytes]),
  ];
  const shades = ["s0", "s1", "s5", "s2", "s3", "s6", "s4"];
  const split = make("div", { class: "split", role: "img", "aria-label": "Memory by use" });
  parts.forEach(([, size], index) => split.append(make("i", { class: shades[index], css: { flex: `${Math.max(size, 0)} 0 0` } })));
  const body = parts.map(([name, size], index) => make("tr", null,
    make("td", null, make("span", { class: `swatch ${shades[index]}` }), name), make("td", null, text(bytes(size))), make("td", null, text(percent(size / memory.limit)))));
  put("memory", split, make("table", null, make("tbody", null, ...body)),
    make("p", { class: "note" }, `${text(bytes(stats.conn_memory_used))} of what connections may hold are in use`));
}
function drawWorkers(workers) {
  const before = seen[Math.max(0, seen.length - 1 - 5)], seconds = last().at - before.at;
  const rates = workers.map((worker, index) => {
    const then = before.status.workers[index];
    const rate = (name) => seconds > 0 && then ? Math.max(0, worker[name] - then[name]) / seconds : 0;
    return [rate("gets"), rate("sets"), rate("rounds")];
  });
  const most = Math.max(...rates.map((rate) => rate[0] + rate[1]), 1);
  put("workers", table(["", "gets", "sets", "rounds", "share"], rates.map(([gets, sets, rounds], index) =>
    [`worker ${index}`, `${text(count(Math.round(gets)))}/s`, `${text(count(Math.round(sets)))}/s`, `${text(count(Math.round(rounds)))}/s`, bar((gets + sets) / most)])));
}
/* Keys are what clients have chosen: they are only ever text, and shown as they are only if nothing in them is invisible. */
let topKeys, measure = "requests", span = "minute";
const MEASURES = [["requests", "requests"], ["bytes", "bytes sent"], ["misses", "misses"]], SPANS = [["minute", "last minute"], ["total", "since the start"]];
function readable(key) {
  try {
    const plain = decodeURIComponent(key);
    return /^[\x21-\x7e]+$/.test(plain) ? plain : key;
  } catch { return key; }
}
function drawTop(id, list, window, show) {
  const tops = window.lists[list], all = window.all[measure], seconds = Math.max(1, window.seconds);
  if (!tops.length) {
    put(id, make("p", { class: "empty" }, "The sample is empty."));
    return;
  }
  put(id, table(["", span === "minute" ? "per second" : "total", "share", ""], tops.map((top) => {
    const value = (number) => text(show(span === "minute" ? number / seconds : number));
    const error = top.error > 0 ? make("small", null, ` \u2212${value(top.error)}`) : "";
    return [make("td", { class: "key", title: top.key }, readable(top.key)), make("td", null, value(top.count), error), text(percent(top.count / all)), bar(top.count / all)];
  })));
}
function choice(options, chosen, choose) {
  return options.map(([name, shown]) => {
    const button = make("button", { type: "button", "aria-pressed": String(name === chosen) }, shown);
    button.addEventListener("click", () => { choose(name); drawTops(); byId("top-choice").querySelector(`button:nth-of-type(${[...MEASURES, ...SPANS].findIndex((one) => one[0] === name) + 1})`).focus(); });
    return button;
  });
}
function drawTops() {
  if (topKeys === undefined) return;
  if (topKeys === null) {
    byId("top-note").textContent = "";
    put("top-choice");
    ["top-keys", "top-prefixes"].forEach((id) => put(id, make("p", { class: "empty" }, "This server does not show keys: disable-top-keys or disable-dumping is set.")));
    return;
  }
  const window = topKeys.windows[span];
  byId("top-note").textContent = `A sample of one request in ${topKeys.sampling}, over ${age(window.seconds)}; \u2212 is the largest possible overcount`;
  put("top-choice", ...choice(MEASURES, measure, (name) => { measure = name; }), make("span"), ...choice(SPANS, span, (name) => { span = name; }));
  const whole = (number) => count(Math.round(number)), show = measure === "bytes" ? bytes : span === "minute" ? count : whole;
  drawTop("top-keys", measure, window, show);
  drawTop("top-prefixes", `prefix_${measure}`, window, show);
}
const CLASSES_SHOWN = 12;
let showsAllClasses = false;
function drawClasses(status) {
  const { classes } = status, used = classes.filter((one) => one.items > 0);
  byId("classes-note").textContent = used.length
    ? `Items are in chunks of their class\u2019s size. ${used.length} of ${classes.length} classes hold any.`
    : "Items are in chunks of their class\u2019s size.";
  if (!used.length) {
    put("classes", make("p", { class: "empty" }, "The cache is empty."));
    return;
  }
  const size = (one) => one.pages * one.chunks_per_page * one.chunk_size;
  const most = Math.max(...used.map(size), 1);
  const largest = [...used].sort((one, other) => size(other) - size(one)).slice(0, CLASSES_SHOWN);
  const shown = showsAllClasses ? used : used.filter((one) => largest.includes(one));
  const button = make("button", { type: "button" }, showsAllClasses ? `The ${CLASSES_SHOWN} largest` : `All ${used.length} classes`);
  button.addEventListener("click", () => { showsAllClasses = !showsAllClasses; draw(); byId("classes").querySelector("button").focus(); });
  put("classes", table(["class", "chunk", "items", "bytes", "pages", "in use", "oldest", "evicted", "age at eviction", "memory"], shown.map((one) => {
    const chunks = one.used_chunks + one.free_chunks;
    return [String(one.id), text(bytes(one.chunk_size)), text(count(one.items)), text(bytes(one.bytes)), String(one.pages),
      chunks ? text(percent(one.used_chunks / chunks)) : "\u2013", age(one.age), text(count(one.evicted)),
      one.evicted ? age(one.evicted_time) : "\u2013", bar(size(one) / most)];
  })), used.length > CLASSES_SHOWN ? button : "");
}
function drawTiles(status) {
  const now = last(), requests = lately((point) => point.gets === null ? null : point.gets + point.sets + point.others);
  const { stats, memory } = status, rate = requests[requests.length - 1];
  tile("t-requests", "Requests per second", rate === null ? ["\u2013", ""] : count(Math.round(rate)),
    now.busy === null ? "" : `${now.busy.toFixed(2)} of ${stats.threads} processors`, requests);
  const total = stats.get_hits + stats.get_misses;
  tile("t-hits", "Hit ratio", now.hits === null ? (total ? percent(stats.get_hits / total) : ["\u2013", ""]) : percent(now.hits),
    total ? `${text(percent(stats.get_hits / total))} since the start` : "no gets yet", lately((point) => point.hits));
  tileOfGets();
  tile("t-memory", "Items and index", bytes(memory.engine_used), `${text(percent(memory.engine_used / memory.engine_limit))} of ${text(bytes(memory.engine_limit))}`,
    lately((point) => point.status.memory.engine_used));
  tile("t-items", "Items", count(stats.curr_items), `${text(count(Math.round(now.evicted)))}/s evicted`, lately((point) => point.status.stats.curr_items));
  tile("t-connections", "Connections", count(stats.curr_connections), `${text(bytes(now.written))}/s sent`,
    lately((point) => point.status.stats.curr_connections));
}
page.draw = ({ status }) => {
  const { engine, policy, start } = status;
  const policies = policy.next ? `${policy.now} \u2192 ${policy.next}` : policy.now;
  byId("about").textContent = [`${status.version}, up ${age(status.stats.uptime)}`, `${engine.name} (${engine.index}${engine.access ? `, ${engine.access}` : ""})`, `policy ${policies}`,
    start.start === "warm" ? `warm start with ${text(count(start.items))} items` : "cold start", `at ${status.listen}`].join(" \u00b7 ");
  drawTiles(status);
  chart("throughput", [["gets", "gets"], ["sets", "sets"], ["others", "others"]], UNITS.rate, "Gets, sets and other commands per second");
  chart("hits", [["hits", "hits"]], UNITS.share, "Share of the requested keys that were found", { most: 1 });
  drawLatency();
  drawCurve(status.mrc);
  drawMemory(status);
  drawWorkers(status.workers);
  drawTops();
  drawClasses(status);
};
page.fetchMore = async () => { topKeys = await json("topkeys"); };
