// The explorer: what geodp.plan says, as sliders. All numbers follow from the tables in explorer-data.js, which the library
// computed when the site was built. No request leaves the page.
"use strict";

(function () {
  const DATA = window.GEODP;
  const page = document.getElementById("geodp-explorer");
  if (!page) return;
  if (!DATA) {
    page.textContent = "The tables of the explorer are missing (_static/explorer-data.js): build the site again, or ask geodp plan on the command line.";
    page.className = "missing";
    return;
  }
  const $ = (name) => document.getElementById("explorer-" + name);

  // ------------------------------------------------------------------ the formulas of geodp.plan

  /** A piecewise Chebyshev interpolant; constant outside its range. */
  function evaluate(table, x, which) {
    const edges = table.edges;
    let i = 0;
    while (i < edges.length - 2 && x > edges[i + 1]) i++;
    const low = edges[i], high = edges[i + 1];
    const t = Math.min(Math.max((2 * x - low - high) / (high - low), -1), 1);
    const c = table.coefficients[i][which];
    let b1 = 0, b2 = 0;
    for (let k = c.length - 1; k > 0; k--) [b1, b2] = [2 * t * b1 - b2 + c[k], b1];
    return t * b1 - b2 + c[0];
  }

  const sinhc = (x) => (Math.abs(x) < 1e-6 ? 1 : Math.sinh(x) / x);

  /** The logarithm of the volume density of a manifold, averaged over directions. */
  function logVolume(space, s) {
    const value = evaluate(space.volume, s, 0);
    return space.diameter === null ? value : space.power * Math.log(Math.max(value, 1e-300));
  }

  // nodes and weights of the Gauss-Legendre rule with ten points on [-1, 1]; the other half is symmetric
  const NODES = [0.14887433898163122, 0.4333953941292472, 0.6794095682990244, 0.8650633666889845, 0.9739065285171717];
  const WEIGHTS = [0.29552422471475287, 0.26926671930999635, 0.21908636251598204, 0.1494513491505806, 0.06667134430868814];

  function integral(f, low, high) {
    const middle = (low + high) / 2, half = (high - low) / 2;
    let sum = 0;
    for (let i = 0; i < 5; i++) sum += WEIGHTS[i] * (f(middle - half * NODES[i]) + f(middle + half * NODES[i]));
    return half * sum;
  }

  const LAWS = [{ kind: "intrinsic", law: "laplace", name: "Riemannian Laplace" }, { kind: "intrinsic", law: "gaussian", name: "Riemannian Gaussian" },
    { kind: "tangent", law: "laplace", name: "tangent Laplace" }, { kind: "tangent", law: "gaussian", name: "tangent Gaussian" }];

  /** How long the noise of a scale is: the density of its length, cut into panels. */
  function lengths(space, mechanism, sigma) {
    const d = space.dim, flat = mechanism.kind === "tangent", laplace = mechanism.law === "laplace";
    const entropy = flat ? 0 : space.entropy;
    const wide = laplace ? (d + 50) / (1 / sigma - entropy) : (Math.sqrt(d) + 9) * sigma + entropy * sigma * sigma;
    const end = flat ? wide : Math.min(wide, space.diameter ?? Infinity);
    const log = (s) => (laplace ? -s / sigma : -0.5 * (s / sigma) ** 2) + (d - 1) * Math.log(s / sigma) + (flat ? 0 : logVolume(space, s));
    let peak = -Infinity;
    for (let i = 1; i <= 64; i++) peak = Math.max(peak, log(end * i / 64.5));
    return { density: (s) => Math.exp(log(s) - peak), end };
  }

  const PANELS = 60;

  /** The mean of min(length, most). */
  function meanLength({ density, end }, most) {
    const cut = Math.min(most, end);
    let mass = 0, first = 0;
    for (const [low, high] of [[0, cut], [cut, end]]) {
      const half = (high - low) / (2 * PANELS);
      for (let i = 0; i < PANELS && half > 0; i++) {
        for (let j = 0; j < 5; j++) {
          for (const node of [NODES[j], -NODES[j]]) {
            const s = low + half * (2 * i + 1 + node), weight = half * WEIGHTS[j] * density(s);
            mass += weight;
            first += weight * Math.min(s, cut);
          }
        }
      }
    }
    return first / mass;
  }

  function lengthQuantiles({ density, end }, levels) {
    const edge = (i) => end * i / (2 * PANELS), sums = [0];
    for (let i = 0; i < 2 * PANELS; i++) sums.push(sums[i] + integral(density, edge(i), edge(i + 1)));
    return levels.map((level) => {
      const goal = level * sums[2 * PANELS];
      let i = 0;
      while (sums[i + 1] < goal) i++;
      let low = edge(i), high = edge(i + 1);
      for (let step = 0; step < 45; step++) {
        const middle = (low + high) / 2;
        if (sums[i] + integral(density, edge(i), middle) < goal) low = middle; else high = middle;
      }
      return (low + high) / 2;
    });
  }

  // the library rounds sensitivities up, which shows where a number lies halfway between two of four digits
  const UP = 1 + 1e-14;

  function sharp(space, r, n) {
    const root = Math.sqrt(space.curvature);
    return UP * Math.min(2 * r, (root > 0 ? 2 * Math.tan(root * r) / root : 2 * r) / n);
  }

  /** Theorem 2 of the paper, or nothing where its radius is too large. */
  function paper(space, r, n) {
    const root = Math.sqrt(space.curvature);
    const limit = 0.5 * Math.min(space.injectivity ?? Infinity, root > 0 ? Math.PI / (2 * root) : Infinity);
    if (r >= limit) return null;
    const h = root > 0 ? 2 * r * root / Math.tan(2 * r * root) : 1;
    return UP * Math.min(2 * r, 2 * r * (2 - h) / h / n);
  }

  function ambient(space, r, n, epsilon) {
    if (space.ambient === null) return null;
    const radius = space.name.startsWith("SPD") ? Math.expm1(r) : 2 * Math.sin(r / 2);
    return space.ambient * 2 * radius / (n * epsilon);
  }

  /** Errors of a mechanism: how much longer a distance may be than the noise, and the largest distance. */
  function reach(space, r, mechanism) {
    if (mechanism.kind === "tangent") return { stretch: sinhc(space.bend * r), most: 2 * r };
    const projected = space.projected === null || r <= space.projected;
    return { stretch: 1, most: projected ? 2 * r : space.diameter ?? Infinity };
  }

  function expected(space, r, mechanism, sigma) {
    const { stretch, most } = reach(space, r, mechanism);
    return stretch * meanLength(lengths(space, mechanism, sigma), most / stretch);
  }

  /** The error for a mean at a third of the radius, which decides between mechanisms. */
  function likely(space, r, mechanism, sigma, worst) {
    const { most } = reach(space, r, mechanism), cap = most <= 2 * r ? Math.min(worst, 4 * r / 3) : worst;
    if (mechanism.kind === "intrinsic") return cap;
    let rest = space.dim, sum = 0;
    for (const [power, rate, sign] of space.factors) {
      const x = rate * r / 3;
      if (!(x > 0)) continue;
      rest -= power;
      sum += power * ((sign > 0 ? Math.sin(x) : Math.sinh(x)) / x) ** 2;
    }
    return Math.min(cap, meanLength(lengths(space, mechanism, sigma), Infinity) * Math.sqrt((rest + sum) / space.dim));
  }

  function plan(space, r, n, epsilon, delta) {
    const [tolerance, rounding] = [0, 1].map((which) => Math.exp(evaluate(space.rounding, r, which)));
    const angle = Math.sqrt(space.curvature) * r, stretch = angle > 0 ? angle / Math.sin(angle) : 1;
    const drawable = (sigma) => space.limit === null || sigma < space.limit;
    const sensitivity = sharp(space, r, n), afforded = space.mechanisms[delta][epsilon];
    const options = LAWS.map((mechanism, i) => {
      if (afforded[i] === null) return null;
      const [ratio, advantage] = afforded[i], distance = sensitivity + 2 * tolerance;
      const scale = (mechanism.kind === "tangent" ? Math.min(stretch * distance, 2 * r) + rounding : distance) / ratio;
      if (mechanism.kind === "intrinsic" && mechanism.law === "laplace" && !drawable(scale)) return null;
      const worst = expected(space, r, mechanism, scale);
      return { mechanism, scale, advantage, expected: worst, likely: likely(space, r, mechanism, scale, worst) };
    }).filter((option) => option !== null);
    const least = (kind) => options.filter((option) => option.mechanism.kind === kind).sort((a, b) => a.likely - b.likely)[0];
    // an intrinsic mechanism on a near tie, as in the library
    const intrinsic = least("intrinsic"), tangent = least("tangent");
    const best = intrinsic && intrinsic.likely <= 1.01 * tangent.likely ? intrinsic : tangent;
    const result = { ...best, sensitivity, ambient: null, paper: null };
    if (DATA.deltas[delta] !== null) return result;
    result.ambient = ambient(space, r, n, DATA.epsilons[epsilon]);
    const theirs = paper(space, r, n), sigma = (theirs + 2 * tolerance) / DATA.epsilons[epsilon];
    if (theirs !== null && drawable(sigma)) result.paper = expected(space, r, LAWS[0], sigma);
    return result;
  }

  function quantiles(space, r, { mechanism, scale }) {
    const { stretch, most } = reach(space, r, mechanism);
    return lengthQuantiles(lengths(space, mechanism, scale), DATA.quantiles).map((length) => Math.min(stretch * length, most));
  }

  // ------------------------------------------------------------------ a few hundred draws, for the picture

  function generator(seed) { // mulberry32: the same cloud every time
    return () => {
      seed = (seed + 0x6d2b79f5) | 0;
      let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  /** How volume grows: log of the envelope G, and the chance J/G of keeping a direction. */
  const GROWTH = {
    "Sphere(2)": { envelope: (s) => Math.sin(s) / s, keep: () => 1 },
    "Hyperbolic(2)": { envelope: (s) => sinhc(s), keep: () => 1 },
    // coordinates in the orthonormal frame: half the difference of the diagonal and the off-diagonal entry, then the trace
    "SPD(2)": { envelope: (s) => sinhc(s / Math.SQRT2), keep: (v, s) => sinhc(Math.hypot(v[0], v[1]) / Math.SQRT2) / sinhc(s / Math.SQRT2) },
  };

  const FLAT = { envelope: () => 1, keep: () => 1 };

  /** Tangent vectors of the law, by the comparison sampler. */
  function cloud(space, { mechanism, scale }, farthest, count) {
    const uniform = generator(7), d = space.dim, cells = 4000, tangent = mechanism.kind === "tangent";
    const growth = tangent ? FLAT : GROWTH[space.name];
    const end = Math.min(farthest, tangent ? Infinity : space.diameter ?? Infinity);
    const cumulated = [0];
    for (let i = 0; i < cells; i++) {
      const s = end * (i + 0.5) / cells, kernel = mechanism.law === "laplace" ? -s / scale : -0.5 * (s / scale) ** 2;
      cumulated.push(cumulated[i] + Math.exp(kernel + (d - 1) * Math.log(s)) * growth.envelope(s));
    }
    const draws = [];
    for (let tries = 0; draws.length < count && tries < 60 * count; tries++) {
      const goal = uniform() * cumulated[cells];
      let low = 0, high = cells;
      while (high - low > 1) { const m = (low + high) >> 1; if (cumulated[m] <= goal) low = m; else high = m; }
      const s = end * (low + (goal - cumulated[low]) / (cumulated[high] - cumulated[low] || 1)) / cells;
      const normal = Array.from({ length: d }, () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform()));
      const length = Math.hypot(...normal);
      const v = normal.map((x) => s * x / length);
      if (uniform() < growth.keep(v, s)) draws.push(v);
    }
    return draws;
  }

  /** From the length of a tangent vector to a distance on the flat picture of unit radius. */
  const VIEW = {
    "Sphere(2)": { flat: (s) => (s < Math.PI / 2 ? Math.sin(s) : NaN), words: "the sphere, seen from above the mean" },
    "Hyperbolic(2)": { flat: (s) => Math.tanh(s / 2), words: "the hyperbolic plane as a disk (Poincaré), the mean in the middle" },
    "SPD(2)": { flat: (s) => Math.tanh(s / Math.SQRT2 / 2), words: "the shapes of 2x2 matrices as a disk, the mean in the middle; the determinant is not shown" },
  };

  // ------------------------------------------------------------------ drawing

  const SVG = "http://www.w3.org/2000/svg";
  function draw(parent, name, attributes, text) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.appendChild(node);
    return node;
  }

  function drawCloud(space, r, result) {
    const svg = $("cloud"), view = VIEW[space.name];
    svg.replaceChildren();
    svg.style.display = view !== undefined ? "" : "none";
    $("cloud-words").textContent = view ? "" : "Releases are drawn only for Sphere(2), Hyperbolic(2) and SPD(2), which fit in a flat picture.";
    if (view === undefined) return;
    const draws = cloud(space, result, 3 * result.quantiles[3], 400);
    const within = result.quantiles[2];
    const sizes = [1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7, 1e-7];
    const shown = view.flat(within);
    const zoom = sizes.filter((size) => Number.isFinite(shown) && size >= 1.6 * shown).pop() ?? 1;
    draw(svg, "circle", { cx: 0, cy: 0, r: 1 / zoom, class: "edge" });
    draw(svg, "circle", { cx: 0, cy: 0, r: Math.min(view.flat(r) || 1, 1) / zoom, class: "ball" });
    for (const v of draws) {
      const length = Math.hypot(v[0], v[1]), moved = result.mechanism.kind === "tangent" ? Math.min(1, r / Math.hypot(...v)) : 1, flat = view.flat(moved * length);
      if (Number.isFinite(flat)) draw(svg, "circle", { cx: flat * v[0] / length / zoom, cy: flat * v[1] / length / zoom, r: 0.012, class: "draw" });
    }
    if (Number.isFinite(shown)) draw(svg, "circle", { cx: 0, cy: 0, r: shown / zoom, class: "within" });
    draw(svg, "circle", { cx: 0, cy: 0, r: 0.025, class: "mean" });
    const closer = zoom < 1 ? `, ${(1 / zoom).toFixed(0)} times closer` : "";
    $("cloud-words").textContent = `400 releases (orange) of one mean (blue): ${view.words}${closer}. Dashed: 95% of the releases are inside; grey: a ball of the public radius around the mean.`;
    svg.setAttribute("aria-label", $("cloud-words").textContent);
  }

  const CURVES = [["expected", "this release", "ours"], ["paper", "bound of the paper", "paper"], ["ambient", "ambient noise (Euclidean)", "ambient"]];

  function drawCurves(space, r, n, epsilon, delta) {
    const svg = $("curves"), width = 480, height = 340, left = 66, right = 12, top = 70, bottom = 48;
    svg.replaceChildren();
    const counts = DATA.records, plans = counts.map((count) => plan(space, r, count, epsilon, delta));
    const values = plans.flatMap((p) => CURVES.map(([key]) => p[key])).filter((value) => value > 0);
    if (!values.length) return;
    const low = Math.floor(Math.log10(Math.min(...values))), high = Math.ceil(Math.log10(Math.max(...values)));
    const x = (count) => left + (width - left - right) * (Math.log10(count) - 1) / 5;
    const y = (value) => top + (height - top - bottom) * (high - Math.log10(value)) / Math.max(high - low, 1);
    for (let power = 1; power <= 6; power++) {
      draw(svg, "line", { x1: x(10 ** power), x2: x(10 ** power), y1: top, y2: height - bottom, class: "grid" });
      draw(svg, "text", { x: x(10 ** power), y: height - bottom + 19, "text-anchor": "middle" }, power < 4 ? String(10 ** power) : "1e" + power);
    }
    for (let power = low; power <= high; power++) {
      draw(svg, "line", { x1: left, x2: width - right, y1: y(10 ** power), y2: y(10 ** power), class: "grid" });
      draw(svg, "text", { x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, power < -2 || power > 3 ? "1e" + power : String(10 ** power));
    }
    CURVES.forEach(([key, label, name], i) => {
      const points = plans.map((p, j) => [counts[j], p[key]]).filter(([, value]) => value > 0);
      if (!points.length) return;
      draw(svg, "polyline", { points: points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" "), class: "curve " + name });
      // above the plot, where no curve runs through it
      draw(svg, "line", { x1: left, x2: left + 30, y1: 12 + 20 * i, y2: 12 + 20 * i, class: "curve " + name });
      draw(svg, "text", { x: left + 38, y: 17 + 20 * i }, label);
    });
    const here = plan(space, r, n, epsilon, delta);
    draw(svg, "circle", { cx: x(n), cy: y(here.expected), r: 5, class: "here" });
    draw(svg, "text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, "number of records");
    const middle = (top + height - bottom) / 2;
    draw(svg, "text", { x: 12, y: middle, transform: `rotate(-90 12 ${middle})`, "text-anchor": "middle" }, "expected error");
  }

  // ------------------------------------------------------------------ the page

  /** Three digits, as the library writes lengths in units. */
  function short(value) {
    const text = Math.abs(value) >= 999.5 && Math.abs(value) < 1e7 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));
    return text.replace(/e([+-])(\d)$/, "e$10$2");
  }

  /** A length in the unit of people, or nothing. */
  function inUnit(space, length) {
    if (space.unit === null || length === null || length === undefined) return "";
    switch (space.unit.name) {
      case "degrees": return `${short(length * 180 / Math.PI)} degrees`;
      case "percent_of_size": return `${short(100 * Math.sin(Math.min(length, Math.PI / 2)))}% ${space.unit.of}`;
      case "standard_deviation_factor": {
        const factor = Math.exp(length / 2);
        return factor < 2 ? `${short(100 * (factor - 1))}% ${space.unit.of}` : `a factor of ${short(factor)} ${space.unit.of}`;
      }
      default: return "";
    }
  }

  const LENGTHS = ["sensitivity", "scale", "expected", "q50", "q90", "q95", "q99", "paper"];

  /** What a ball found privately would do, from a table; and a sentence where there is none. */
  function found(space, n, epsilon, delta) {
    const { epsilons, records, find } = DATA.search, choice = $("found").value;
    if (choice === "") return "";
    const command = `geodp plan --manifold "${space.name}" --records ${n} --epsilon ${epsilon} --spread 0.3`;
    if (space.searched === null) return `There is no table of private balls on ${space.name}; this computes one: ${command}.`;
    if (delta !== null) return `The tables of private balls are for pure epsilon; this computes one with a delta: ${command} --delta ${delta}.`;
    const i = records.filter((count) => count <= n).length - 1, j = epsilons.filter((value) => value <= epsilon).length - 1;
    if (i < 0 || j < 0) return `The tables of private balls start at n = ${records[0]} and epsilon = ${epsilons[0]}.`;
    const spread = space.searched.spreads[choice], [radius, error] = space.searched.plans[choice][i][j];
    const written = (length) => `${digits(length)}${space.unit === null ? "" : ` (${inUnit(space, length)})`}`;
    const from = space.searched.radius === null ? "" : ` from a radius of ${space.searched.radius}`;
    return `Found privately${from} with ${100 * find}% of epsilon, for n = ${records[i]}, epsilon = ${epsilons[j]} and records about ${spread} from their ` +
      `centre: a ball of radius ${written(radius)}, and a mean with an expected error of ${written(error)}, clipping included. ` +
      `The table above is for a ball that you can name, with all of epsilon.`;
  }

  /** The choices of a spread, for a manifold. */
  function offer(space) {
    const select = $("found");
    select.replaceChildren();
    const choices = [["", "I can name it without looking at the data"]];
    if (space.searched === null) choices.push(["0", "found privately (no table for this manifold)"]);
    else space.searched.spreads.forEach((spread, i) => choices.push([String(i), `found privately; records are about ${spread} from their centre`]));
    for (const [value, text] of choices) {
      const option = document.createElement("option");
      option.value = value;
      option.textContent = text;
      select.appendChild(option);
    }
  }

  const digits = (value) => (value === null || value === undefined ? "none" : String(Number(value.toPrecision(4))));

  function update() {
    const space = DATA.manifolds[$("manifold").value], step = Number($("epsilon").value), choice = Number($("delta").value);
    const epsilon = DATA.epsilons[step], delta = DATA.deltas[choice], n = DATA.records[$("n").value], r = space.radii[$("radius").value];
    const result = plan(space, r, n, step, choice);
    result.quantiles = quantiles(space, r, result);
    $("epsilon-value").value = epsilon;
    $("n-value").value = n;
    $("radius-value").value = r;
    for (const [name, value] of [["epsilon", epsilon], ["n", n], ["radius", r]]) $(name).setAttribute("aria-valuetext", String(value));
    const fields = { sensitivity: result.sensitivity, scale: result.scale, expected: result.expected, paper: result.paper, ambient: result.ambient, advantage: result.advantage };
    DATA.quantiles.forEach((q, i) => { fields["q" + Math.round(100 * q)] = result.quantiles[i]; });
    for (const [name, value] of Object.entries(fields)) $(name).textContent = digits(value);
    for (const name of LENGTHS) $(name + "-unit").textContent = inUnit(space, fields[name]);
    $("radius-unit").textContent = inUnit(space, r);
    $("found-words").textContent = found(space, n, epsilon, delta);
    $("mechanism").textContent = result.mechanism.name;
    $("message").textContent = result.likely <= r ? "" :
      "This release will say nothing about the data: its likely error exceeds the radius of the ball.";
    const times = (other) => (digits(other / result.expected) === "1" ? "the same error" : `${digits(other / result.expected)} times the error`);
    const better = [];
    if (result.paper) better.push(`the paper's bound would give ${times(result.paper)}`);
    if (result.ambient) better.push(`ambient noise would give ${times(result.ambient)}`);
    $("comparison").textContent = better.length ? `With the same epsilon ${better.join(", and ")}.` : "";
    $("code").textContent = `import geodp\n\nspace = geodp.${space.name}\nball = geodp.Ball(space, space.origin, ${r})\nprint(geodp.plan(ball, n=${n}, epsilon=${epsilon}${delta === null ? "" : `, delta=${delta}`}))`;
    drawCloud(space, r, result);
    drawCurves(space, r, n, step, choice);
  }

  DATA.manifolds.forEach((space, i) => {
    const option = document.createElement("option");
    option.value = i;
    option.textContent = `${space.name}: ${space.records}`;
    $("manifold").appendChild(option);
  });
  DATA.deltas.forEach((delta, i) => {
    const option = document.createElement("option");
    option.value = i;
    option.textContent = delta === null ? "none: pure privacy" : String(delta);
    $("delta").appendChild(option);
  });
  $("epsilon").max = DATA.epsilons.length - 1;
  $("epsilon").value = DATA.epsilons.indexOf(1);
  $("n").max = DATA.records.length - 1;
  $("n").value = DATA.records.indexOf(1000);
  $("radius").max = 100;
  $("radius").value = 25;
  offer(DATA.manifolds[0]);
  $("manifold").addEventListener("input", () => offer(DATA.manifolds[$("manifold").value]));
  for (const name of ["manifold", "found", "epsilon", "delta", "n", "radius"]) $(name).addEventListener("input", update);
  update();
  page.dataset.ready = "yes";
})();
