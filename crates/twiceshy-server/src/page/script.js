// Once a second: the server's numbers, as text and lines.
"use strict";

const SECOND = 1000;
// Of fewer keys, what every filter takes is more than the keys do.
const FEW_KEYS = 1000;
const byId = (id) => document.getElementById(id);

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const oneDigit = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

// For where there is little room.
function rate(number) {
  if (number >= 1e5) return short.format(number);
  return (number < 10 ? oneDigit : whole).format(number);
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${(bytes < 100 ? oneDigit : whole).format(bytes)} ${units[unit]}`;
}

function duration(nanoseconds) {
  const units = ["ns", "µs", "ms", "s"];
  let unit = 0;
  while (nanoseconds >= 1000 && unit < units.length - 1) {
    nanoseconds /= 1000;
    unit += 1;
  }
  return `${(nanoseconds < 10 ? oneDigit : whole).format(nanoseconds)} ${units[unit]}`;
}

// A dash where nothing was timed.
function durationOrNone(nanoseconds) {
  return nanoseconds === null ? "–" : duration(nanoseconds);
}

function elapsed(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([length]) => seconds >= length);
  if (first < 0) return "0 s";
  return parts.slice(first, first + 2).map(([length, name], index) => {
    const count = Math.floor(index === 0 ? seconds / length : (seconds % parts[first][0]) / length);
    return index > 0 && count === 0 ? "" : `${count} ${name}`;
  }).join(" ").trim();
}

// A number for people, and the exact one beside it.
function show(id, text, value) {
  const element = byId(id);
  element.textContent = text;
  if (value !== undefined) element.dataset.value = value;
}

function count(id, value) {
  show(id, whole.format(value), value);
}

// The next of 1, 2, 5, 10, 20, 50, ...
function roundUp(number) {
  const power = 10 ** Math.floor(Math.log10(Math.max(number, 1)));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= number);
}

const HEIGHT = 100;

// Seconds that a chart shows before there are more.
const SHORTEST = 60;

// The stretches of seconds in which a demonstration attacked, or paused.
function phases(history) {
  const found = [];
  history.forEach(({ attack }, index) => {
    const last = found[found.length - 1];
    if (last && last.attack === attack) last.end = index;
    // A second ends at its point: it began at the one before.
    else found.push({ attack, start: Math.max(index - 1, 0), end: index });
  });
  return found.filter(({ attack }) => attack !== null);
}

// Pixels that the words of a phase take, in one line or in two.
const PHASE_ROOM = 46;

// Shades the attacks, and writes above each phase what it is, where there is room.
function drawPhases(chart, history, width) {
  const found = phases(history);
  const start = width - (history.length - 1);
  const bands = found.filter(({ attack }) => attack)
    .map((phase) => `M${start + phase.start} 0H${start + phase.end}V${HEIGHT}H${start + phase.start}Z`);
  chart.querySelector(".band").setAttribute("d", bands.join(""));
  chart.classList.toggle("phased", found.length > 0);
  chart.querySelectorAll(".when").forEach((label) => label.remove());
  found.forEach((phase) => {
    const share = (phase.end - phase.start) / width;
    if (share * chart.clientWidth < PHASE_ROOM) return;
    const label = document.createElement("span");
    label.className = "when";
    label.textContent = phase.attack ? "attack on" : "attack paused";
    label.style.left = `${(start + phase.start) / width * 100}%`;
    label.style.width = `${share * 100}%`;
    chart.append(label);
  });
}

// Two lines over the same seconds, the first with the ground below it filled.
function draw(id, history, first, second, label) {
  const chart = byId(id);
  const width = Math.max(history.length - 1, SHORTEST);
  const top = roundUp(Math.max(...history.map((rates) => Math.max(rates[first], rates[second])), 0));
  const points = (name) => history.map((rates, index) => {
    const x = width - (history.length - 1 - index);
    return `${x} ${(HEIGHT * (1 - rates[name] / top)).toFixed(2)}`;
  }).join("L");
  const [line, other] = chart.querySelectorAll(".line");
  const enough = history.length > 1;
  line.setAttribute("d", enough ? `M${points(first)}` : "");
  other.setAttribute("d", enough ? `M${points(second)}` : "");
  const start = width - (history.length - 1);
  const area = enough ? `M${start} ${HEIGHT}L${points(first)}L${width} ${HEIGHT}Z` : "";
  chart.querySelector(".area").setAttribute("d", area);
  chart.querySelector(".grid").setAttribute("d", [0, HEIGHT / 2, HEIGHT].map((y) => `M0 ${y}H${width}`).join(""));
  chart.querySelector(".top").textContent = rate(top);
  chart.querySelector(".middle").textContent = rate(top / 2);
  chart.querySelector(".past").textContent = `${elapsed(width)} ago`;
  drawPhases(chart, history, width);
  const svg = chart.querySelector("svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  svg.setAttribute("aria-label", label);
}

function row(cells) {
  const line = document.createElement("tr");
  cells.forEach((text, index) => {
    const cell = document.createElement(index === 0 ? "th" : "td");
    if (index === 0) cell.scope = "row";
    cell.textContent = text;
    line.append(cell);
  });
  return line;
}

const COLUMNS = 16;

function drawHeat(groups) {
  const heat = byId("heat");
  const template = document.querySelector("template").content.querySelector("rect");
  while (heat.childElementCount < groups.length) {
    const cell = template.cloneNode();
    const index = heat.childElementCount;
    cell.setAttribute("x", index % COLUMNS);
    cell.setAttribute("y", Math.floor(index / COLUMNS));
    heat.append(cell);
  }
  heat.setAttribute("viewBox", `0 0 ${COLUMNS} ${Math.ceil(groups.length / COLUMNS)}`);
  const asked = groups.map((group) => group.now.queries);
  const mean = asked.reduce((sum, queries) => sum + queries, 0) / groups.length;
  // Even traffic is half dark, so that what stands out does.
  const darkest = Math.max(2 * mean, ...asked, 1);
  asked.forEach((queries, index) => {
    heat.children[index].setAttribute("fill-opacity", (0.08 + 0.92 * queries / darkest).toFixed(3));
  });
  const name = ({ first, shards }) => (shards === 1 ? `${first}` : `${first}–${first + shards - 1}`);
  const hottest = [...groups].sort((a, b) => b.now.queries - a.now.queries).slice(0, 3);
  byId("hottest").replaceChildren(...hottest.map((group) => row([
    name(group), rate(group.now.queries), rate(group.now.false_positives), rate(group.spent),
  ])));
  heat.setAttribute("aria-label", `Heat map of ${groups.length} shards; the hottest is shard `
    + `${name(hottest[0])} with ${rate(hottest[0].now.queries)} queries per second`);
}

function update(report) {
  const { total, now, history } = report;
  count("reads-avoided", total.reads_avoided);
  show("reads-avoided-rate", rate(now.reads_avoided));
  const misses = total.reads_avoided + total.false_positives;
  // Rounded down: 100 % is said of nothing that is less.
  const share = misses === 0 ? undefined : Math.floor(total.reads_avoided / misses * 1e4) / 100;
  show("reads-avoided-share", share === undefined ? "–" : `${share} %`);
  count("store-reads", total.store_reads);
  show("store-reads-rate", rate(now.store_reads));
  count("false-positives", total.false_positives);
  count("adapted", total.adapted);
  count("spent", total.spent);
  show("spent-rate", rate(now.spent));
  show("filter-bytes", size(total.filter_bytes), total.filter_bytes);
  show("bits-per-key", total.keys < FEW_KEYS ? "–" : oneDigit.format(total.filter_bytes * 8 / total.keys));
  show("process-bytes", report.process_bytes === null ? "unknown" : size(report.process_bytes));
  show("with-rate", rate(now.false_positives));
  show("without-rate", rate(now.without_adaptation));
  show("queries-rate", rate(now.queries));
  show("reads-rate", rate(now.store_reads));
  draw("fp-chart", history, "without_adaptation", "false_positives",
    `Chart: ${rate(now.without_adaptation)} false positives per second without adaptation, `
    + `${rate(now.false_positives)} with it`);
  draw("q-chart", history, "queries", "store_reads",
    `Chart: ${rate(now.queries)} queries per second, ${rate(now.store_reads)} store reads`);
  const timed = report.latencies.filter((latency) => latency.count > 0 && latency.name !== "other");
  byId("latencies").replaceChildren(...timed.map((latency) => row([
    latency.name, ...[latency.p50, latency.p99, latency.p999].map(durationOrNone),
  ])));
  drawHeat(report.groups);
  showPhase(report.attack);
  showStore(report);
  byId("try").hidden = report.attack === null;
  show("about", `${whole.format(total.keys)} keys, ${STORES[report.backend]}, `
    + `${whole.format(report.connections)} connections, up ${elapsed(report.uptime)}`, total.keys);
}

function showPhase(attack) {
  const phase = byId("phase");
  phase.hidden = attack === null;
  phase.textContent = attack ? "attack on" : "attack paused";
  phase.dataset.attack = attack;
  document.querySelectorAll(".attacked").forEach((entry) => { entry.hidden = attack === null; });
}

const STORES = {
  embedded: "embedded store", postgres: "in front of PostgreSQL", redis: "in front of Redis",
};

// A store that others write to, and how well the filter knows it.
function showStore(report) {
  byId("store").hidden = report.backend === "embedded";
  byId("store").dataset.trouble = !report.store_up || !report.filter_trusted;
  show("store-state", report.store_up ? "up" : "down");
  show("store-name", report.backend === "postgres" ? "PostgreSQL" : "Redis");
  show("trust", report.filter_trusted ? "trusted" : "not trusted");
  show("trust-note", report.filter_trusted ? "it answers lookups of missing keys"
    : "every lookup goes to the store");
  show("lag", report.lag === null ? "–" : `${whole.format(report.lag)} ms`);
  show("lag-note", report.retained === null ? "measured with --follow of PostgreSQL"
    : `${report.lag === null ? "not known" : "at most"}; the store keeps ${size(report.retained)} of log for it`);
  count("vanished", report.total.vanished);
}

// A demonstration's box: one key, and what became of it.
async function tryKey(path) {
  let said;
  try {
    const answer = await fetch(path, { cache: "no-store" });
    if (!answer.ok) throw new Error(await answer.text());
    said = tell(await answer.json());
  } catch (error) {
    console.error(error);
    said = { filter: "–", store: "–", adapted: "–", said: `No answer: ${error.message}` };
  }
  ["filter", "store", "adapted"].forEach((step) => {
    byId(`try-${step}`).dataset.outcome = said.outcomes ? said.outcomes[step] : "none";
    byId(`try-${step}`).querySelector("span").textContent = said[step];
  });
  show("try-said", said.said);
}

// What became of a key, in words.
function tell(looked) {
  if (looked === null) {
    return { filter: "–", store: "–", adapted: "–", said: "No false positive among 100,000 missing keys." };
  }
  byId("try-key").value = looked.key;
  const name = `“${looked.key}”`;
  if (looked.filter === "absent") {
    return {
      filter: "absent, for certain",
      store: "not asked",
      adapted: looked.adapted_before ? "earlier, to this key" : "not needed",
      outcomes: { filter: "good", store: "none", adapted: looked.adapted_before ? "good" : "none" },
      said: looked.adapted_before ? `The filter was wrong about ${name} once, and is not wrong again.`
        : `${name} is not stored, and the filter knows without a read.`,
    };
  }
  if (looked.stored) {
    return {
      filter: "maybe stored",
      store: `found: ${looked.value === null ? "a large value" : looked.value}`,
      adapted: "not needed",
      outcomes: { filter: "none", store: "good", adapted: "none" },
      said: `${name} is stored, so it takes one read.`,
    };
  }
  return {
    filter: "maybe stored",
    store: "read for nothing",
    adapted: looked.adapted ? "now, to this key" : "not yet",
    outcomes: { filter: "bad", store: "bad", adapted: looked.adapted ? "good" : "bad" },
    said: looked.adapted ? `A false positive: ${name} is not stored. The filter has adapted; look it up again.`
      : `A false positive: ${name} is not stored. The filter was being changed; look it up again.`,
  };
}

byId("try-form").addEventListener("submit", (event) => {
  event.preventDefault();
  tryKey(`/lookup?key=${encodeURIComponent(byId("try-key").value)}`);
});
byId("try-mistake").addEventListener("click", () => tryKey("/mistake"));

function say(state, text) {
  const status = byId("status");
  if (status.textContent === text) return;
  status.dataset.state = state;
  status.textContent = text;
}

function judge(report) {
  if (!report.store_up) say("trouble", "the store does not answer");
  else if (!report.filter_trusted) say("trouble", "every lookup goes to the store");
  else say("live", "live");
}

async function look() {
  try {
    const answer = await fetch("/stats.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const report = await answer.json();
    update(report);
    judge(report);
  } catch (error) {
    console.error(error);
    say("lost", "the server does not answer; trying again");
  }
  setTimeout(look, SECOND);
}

look();
