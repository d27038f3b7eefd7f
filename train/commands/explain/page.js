// Ids, angles and biases from the parameters that Python handed over; below, what is drawn.
// A token is a word or a sign with the white space before it; it is in the segment of its sign.
function tokenize(text) {
  const found = [...text.matchAll(/\s*(?:[\p{L}\p{N}\p{M}_]+|[^\s\p{L}\p{N}\p{M}_])/gu)];
  return found.map((one) => ({ text: one[0], at: one.index + one[0].search(/\S/) }));
}
const RULES = {
  sentences: /[.!?\u2026]+["')\]\u201d\u2019]*\s+|[\u3002\uff01\uff1f]\s*|\n\s*\n/g,
  lines: /\n/g,
  hand: /(?!)/g,
};
function startsBy(rule, text) {
  return [0, ...[...text.matchAll(RULES[rule])].map((end) => end.index + end[0].length)];
}
function opened(tokens, starts) {
  const segment = (at) => starts.filter((start) => start <= at).length;
  return tokens.map((one, n) => n === 0 || segment(one.at) !== segment(tokens[n - 1].at));
}
function count(opens) {
  let inter = -1, intra = 0;
  return opens.map((open, token) => {
    [inter, intra] = open ? [inter + 1, 0] : [inter, intra + 1];
    return { token, inter, intra };
  });
}
const angles = (part, id) => part.frequencies.map((frequency) => id * frequency);
// The score of a query and an equal key, as a share of that at distance 0 without a factor.
function likeness(part, q, k) {
  const turned = angles(part, q - k).reduce((sum, angle) => sum + 2 * Math.cos(angle), 0);
  const rest = part.width - 2 * part.frequencies.length;
  return (part.factor ** 2 * turned + rest) / part.width;
}
function biases(part, q, k) {
  if (part.slopes) return part.slopes.map((slope) => slope * (k - q));
  return part.table.map((row) => row[Math.max(0, q - k)] ?? NaN); // NaN: beyond the table
}
// Where a list that is `seen` tall is scrolled to, to show what is `tall` at `top` and move least.
const scrolled = (now, top, tall, seen) => Math.min(top, Math.max(now, top + tall - seen));
if (typeof document !== "undefined") start();

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id), MOST = 600;
  let tokens = [], opens = [], chosen = 0, source = "";
  const make = (tag, words, kind) => Object.assign(document.createElement(tag),
    { textContent: words ?? "", className: kind ?? "" });
  const degrees = (angle) => (((angle * 180) / Math.PI) % 360).toFixed(1) + "\u00b0";
  const short = (value) => Number.isNaN(value) ? "not drawn" : String(+value.toPrecision(4));
  const some = (list, most) => { // some of them, evenly, with their places
    const last = list.length - 1, n = Math.min(most, list.length);
    return [...Array(n).keys()].map((i) => Math.round((i * last) / Math.max(1, n - 1)));
  };

  function cut(starts, said) {
    const all = tokenize($("text").value);
    tokens = all.slice(0, MOST);
    opens = opened(tokens, starts);
    chosen = tokens.length - 1;
    source = said + (all.length > MOST ? ` Showing the first ${MOST} of ${all.length} tokens.` : "");
    draw();
  }
  function typed() {
    const rule = $("rule").value;
    cut(startsBy(rule, $("text").value), {
      sentences: "Segments: a simple rule of this page, after . ! ? and a space, and after empty " +
        "lines. The segmenter Sentences also handles abbreviations, numbers and other scripts.",
      lines: "Segments: one per line. The segmenter Lines also finds statements.",
      hand: "Segments: set by hand.",
    }[rule]);
  }
  function draw() {
    const ids = count(opens), list = $("tokens");
    $("source").textContent = source;
    list.replaceChildren(...tokens.flatMap((one, n) => {
      const gap = make("button", opens[n] ? "|" : "\u00b7", "gap" + (opens[n] ? " open" : ""));
      gap.ariaLabel = `${opens[n] ? "join" : "start a segment at"} token ${n}`;
      gap.disabled = n === 0;
      gap.onclick = () => {
        opens[n] = !opens[n];
        source = source.startsWith("Segments: set") ? source : "Segments: set by hand, from: "
          + source.replace(/^Segments: /, "");
        draw();
      };
      const chip = make("button", "", `chip t${ids[n].inter % 2}`);
      chip.ariaPressed = String(n === chosen);
      chip.append(make("b", one.text.trim()), ...["token", "inter", "intra"].map((name) =>
        make("small", `${name} ${ids[n][name]}`)));
      chip.onclick = () => { chosen = n; draw(); };
      return [gap, chip];
    }));
    const held = list.querySelector("[aria-pressed=true]"); // scrollIntoView would move the page too
    if (held) list.scrollTop = scrolled(list.scrollTop, held.offsetTop - list.offsetTop,
      held.offsetHeight, list.clientHeight);
    $("parts").replaceChildren(...(tokens.length ? data.parts.map((part) => shown(part, ids)) : []));
  }
  function shown(part, ids) {
    const box = make("section"), layers = part.layers ? `; layers ${part.layers.join(", ")}` : "";
    const q = part.ids && ids[chosen][part.ids];
    box.append(make("h2", `${part.path}: ${part.name}`));
    box.append(make("p", `Counts ${part.counts}${layers}.` + (part.ids
      ? ` The selected token, ${chosen} (${tokens[chosen].text.trim()}), has ${part.ids} id ${q}.` : "")));
    for (const note of part.notes) box.append(make("p", `Not shown here: ${note}.`, "note"));
    const keys = ids.slice(0, chosen + 1).map((each) => each[part.ids]);
    if (part.frequencies) {
      box.append(make("p", "Rotation angles of some pairs of features at this id, fastest pair first:"));
      const moving = angles(part, q), row = make("div", "", "dials");
      for (const p of some(moving, 8)) {
        const [x, y] = [24 + 18 * Math.cos(moving[p]), 24 - 18 * Math.sin(moving[p])];
        const dial = make("div");
        dial.innerHTML = `<svg viewBox="0 0 48 48" width="48" height="48" aria-hidden="true">
          <circle cx="24" cy="24" r="18"/><path d="M24 24L${x} ${y}"/></svg>`;
        dial.append(make("small", `pair ${p}: ${degrees(moving[p])}`));
        row.append(dial);
      }
      const like = keys.map((k) => [likeness(part, q, k)]);
      box.append(row, ...chart("score of equal query and key, relative to distance 0",
        ["every head"], like));
    }
    if (part.slopes || part.table) {
      const all = keys.map((k) => biases(part, q, k)), heads = some(all[0], 4);
      box.append(...chart("bias on the scores of this token, by distance to each earlier token",
        heads.map((h) => `head ${h + 1}`), all.map((row) => heads.map((h) => row[h]))));
    }
    return box;
  }
  function chart(title, names, rows) { // one row of values for each key
    const wide = Math.max(280, Math.min(900, $("parts").clientWidth)) - 60, tall = 130;
    const values = rows.flat().filter((value) => !Number.isNaN(value));
    const low = Math.min(...values, 0), high = Math.max(...values, 0), span = high - low || 1;
    const x = (n) => 50 + (n / Math.max(1, rows.length - 1)) * wide;
    const y = (value) => 10 + ((high - value) / span) * tall;
    const lines = names.map((_, h) => {
      const path = rows.map((row, n) => [x(n), y(row[h])]).filter(([, at]) => !Number.isNaN(at));
      return `<polyline points="${path.join(" ")}" style="stroke:var(--hue-${h})"/>` + path.map(
        ([px, py]) => `<circle cx="${px}" cy="${py}" r="2" style="fill:var(--hue-${h})"/>`).join("");
    });
    const box = make("div");
    box.innerHTML = `<svg class="chart" width="${wide + 60}" height="${tall + 34}" role="img"
      aria-label="${title}"><text x="44" y="16" text-anchor="end">${short(high)}</text><text x="44" y="${tall + 12}"
      text-anchor="end">${short(low)}</text><path class="axis" d="M50 ${y(0)}h${wide}"/>${lines.join("")}
      <text x="50" y="${tall + 28}">token 0</text><text x="${50 + wide}" y="${tall + 28}"
      text-anchor="end">token ${rows.length - 1}</text></svg>`;
    const legend = make("p", "", "note");
    legend.append(...names.map((name, h) =>
      Object.assign(make("b", `${name} `), { style: `color:var(--hue-${h})` })));
    const numbers = make("details"), table = make("table");
    const line = (cells, tag) => {
      const row = make("tr");
      row.append(...cells.map((cell) => make(tag, cell)));
      return row;
    };
    table.append(line(["token", "", ...names], "th"), ...rows.map((row, n) =>
      line([n, tokens[n].text.trim(), ...row.map(short)], "td")));
    const wrap = make("div", "", "table");
    wrap.append(table);
    numbers.append(make("summary", "numbers"), wrap);
    return [make("p", title[0].toUpperCase() + title.slice(1) + ":"), box, legend, numbers];
  }

  document.title = $("title").textContent = `Positions: ${data.title}`;
  for (const note of data.far) $("far").append(make("p", note, "note"));
  data.examples.forEach((each) => {
    const button = make("button", each.name);
    button.onclick = () => {
      $("text").value = each.text;
      cut(each.starts, `Segments: by ${each.by}, computed when this page was written.`);
    };
    $("examples").append(button, " ");
  });
  $("text").oninput = $("rule").onchange = typed;
  let width = 0;
  addEventListener("resize", () => {
    if (width !== innerWidth) { width = innerWidth; draw(); }
  });
  $("examples").firstElementChild.click();
}
