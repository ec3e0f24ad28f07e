page.unknown = { reads: null, requests: null, misses: null, failed: null, hit: null, wait: null };
page.fill = (point, delta, seconds) => {
  const misses = delta("client_misses") + delta("client_failures") + delta("client_unleased"), reads = delta("reads");
  point.reads = reads / seconds;
  point.requests = (reads + delta("writes") + delta("failed")) / seconds;
  point.misses = misses / seconds;
  point.failed = delta("failed") / seconds;
  point.hit = reads > 0 ? Math.max(0, 1 - misses / reads) : null;
  const times = since(point.status.latency.get, last().status.latency.get);
  point.wait = times.count ? quantile(times, 0.99) / 1e6 : null;
};
const recentOf = (name) => lately((point) => point[name]);

function drawTiles({ stats, lag_s, wrong, owes_deletes }) {
  const now = last();
  const dash = ["\u2013", ""];
  tile("t-requests", "Requests per second", now.requests === null ? dash : count(now.requests), `${text(count(stats.reads + stats.writes))} in total`, recentOf("requests"));
  tile("t-hits", "Hit ratio", now.hit === null ? dash : percent(now.hit), `${text(count(stats.client_misses))} misses in total`, recentOf("hit"));
  tileOfGets();
  tile("t-failed", "Failed requests", count(stats.failed), `${stats.retries} retries by router`, recentOf("failed"));
  tile("t-wrong", "Wrong answers", count(stats.wrong), `of ${text(count(stats.judged))} judged`, []);
  tile("t-lag", "Invalidator's lag", lag_s === null ? dash : [lag_s.toFixed(0), "s"], owes_deletes ? "deletes are logged" : "no delete is logged", []);
  byId("t-wrong").querySelector("strong").style.color = stats.wrong > 0 ? "var(--bad)" : "";
  if (wrong.length) problem(wrong[0]);
}
function place(title, part, parts) {
  const known = parts.find((one) => one.name === part);
  const state = known ? known.state : "empty";
  const kind = state === "up" ? (title === "spare" ? "place idle" : "place") : "place bad";
  const items = known && known.figures ? `${text(count(known.figures.items))} items` : "\u2013";
  return make("div", { class: kind }, make("span", { class: "note" }, title), make("b", null, part || "\u2013"), make("span", { class: "note" }, `${state}, ${items}`));
}
function drawPlaces({ slots, parts, leader }) {
  const served = slots.map((part, slot) => place(`slot ${slot}`, part, parts));
  const others = parts.filter((part) => part.role === "node" && !slots.includes(part.name)).map((part) => place(part.duty, part.name, parts));
  put("places", ...served, ...others, place("gutter", "gutter", parts));
  byId("leader").textContent = leader ? `The member of ${leader} replaces lost servers` : "No member is the leader: lost servers are not replaced";
}

/* The buttons are made once, so that nothing moves below a pointer. */
let kinds = [];
function drawActs({ parts, kinds: known }) {
  if (kinds.length) return;
  kinds = known;
  const what = make("select", { id: "what", "aria-label": "part" }, ...parts.map((part) => make("option", { value: part.name }, part.name)));
  const length = make("select", { id: "length", "aria-label": "for how long" }, ...[2, 5, 10, 30, 60].map((s) => make("option", { value: String(s * 1000) }, `${s} s`)));
  what.value = "node-1";
  length.value = "10000";
  const buttons = kinds.map(({ verb, about }) => {
    const button = make("button", { type: "button", title: about, "data-verb": verb }, verb);
    button.addEventListener("click", () => act(verb, what.value, length.value));
    button.addEventListener("mouseenter", () => { byId("about-kind").textContent = `${verb}: ${about}`; });
    return button;
  });
  const random = make("button", { type: "button", title: "random faults, one after the other" }, "random");
  random.addEventListener("click", () => act("random", "", length.value));
  const allow = () => {
    const part = parts.find((one) => one.name === what.value);
    buttons.forEach((button) => { button.disabled = !part || !part.verbs.includes(button.dataset.verb); });
  };
  what.addEventListener("change", allow);
  allow();
  put("act", what, length, ...buttons, random);
}
async function act(verb, what, length) {
  const headers = { "X-Guira": "1" };
  if (token) headers.Authorization = `Bearer ${token}`;
  const query = new URLSearchParams({ kind: verb, for_ms: length });
  if (what) query.set("what", what);
  try {
    const reply = await fetch(`break?${query}`, { method: "POST", headers, cache: "no-store" });
    byId("told").textContent = reply.ok ? `${verb} ${what} for ${length / 1000} s` : await reply.text();
  } catch (error) {
    byId("told").textContent = `The region did not answer (${error.message}).`;
  }
  if (!isPaused) look();
}

function drawFaults({ faults }) {
  if (!faults.length) {
    put("faults", make("p", { class: "empty" }, "No faults yet."));
    return;
  }
  const ms = (time) => time === null ? "\u2013" : text([time.toFixed(time < 10 ? 1 : 0), "ms"]);
  const bad = (number) => make("td", { class: number ? "bad" : "" }, text(count(number)));
  put("faults", table(["", "", "lasted", "requests", "failed", "misses", "retries", "median", "99\u202f%", "older", "wrong"], faults.map(({ at_ms, what, is_over, lasted_s, seen: it }) => [
    clock(at_ms), what, is_over ? `${lasted_s.toFixed(1)} s` : `for ${lasted_s.toFixed(0)} s now`, text(count(it.requests)), bad(it.failed),
    text(count(it.misses)), text(count(it.retries)), ms(it.median_ms), ms(it.p99_ms), text(count(it.stale)), bad(it.wrong)])));
}
function drawParts({ parts, left_out, folder }) {
  byId("left-out").textContent = left_out.length ? left_out.join("; ") : `Their logs are in ${folder}`;
  put("parts", table(["", "", "state", "address", "hits", "misses"], parts.map((part) => [
    part.name, part.duty, make("td", { class: part.state === "up" ? "" : "bad" }, part.state), part.address || "",
    part.figures ? text(count(part.figures.hits)) : "", part.figures ? text(count(part.figures.misses)) : ""])));
}
/* Times of faults are those of the wall clock. */
function bandsOf({ faults }) {
  return faults.map(({ at_ms, what, lasted_s }) => ({ name: what, from: at_ms / 1000 - ahead, to: at_ms / 1000 - ahead + lasted_s }));
}
page.draw = ({ status }) => {
  byId("about").textContent = status.version + (status.chaos && !status.chaos.is_over ? `, random faults (seed ${status.chaos.seed})` : "");
  drawTiles(status);
  drawPlaces(status);
  drawActs(status);
  const bands = bandsOf(status);
  chart("throughput", [["reads", "reads"], ["misses", "misses"], ["failures", "failed"]], UNITS.rate, "Reads, misses and failures per second", { bands });
  chart("waits", [["99\u202f% of reads", "wait"]], UNITS.ms, "99 % of reads take at most", { bands });
  drawFaults(status);
  drawParts(status);
  put("events", table(["", ""], status.events.map((event) => [clock(event.at_ms), event.what])));
};
