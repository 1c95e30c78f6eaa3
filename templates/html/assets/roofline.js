// One roofline to explore: peak, bandwidth and clock of a device and the layers of a network give
// what bounds a training step, and how long the step takes at least. Without this script the table
// above stands alone. A test compares layers.js, the work and traffic of layers, with the theory.
(() => {
  "use strict";
  const site = globalThis.ridgepoint;
  const { element } = site;
  const place = document.querySelector("#roofline, #tbl-by-network, #fig-example");
  if (!place) return;
  const root = place.id === "roofline" ? "" : "../";
  const WIDTH = 380, HEIGHT = 230, LEFT = 52, BOTTOM = 36, EDGE = 24;
  const LOW = 0.1, HIGH = 10000; // intensities (FLOP/B)
  const svgElement = (name, attributes, text) => {
    const created = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
    if (text) created.textContent = text;
    return created;
  };
  const short = number => Number(number.toPrecision(2)).toLocaleString("en");

  // Least time of a step (s), and the share of it in which memory is the nearer roof.
  const least = (layers, peak, bandwidth) => {
    let seconds = 0, memory = 0;
    for (const [work, bytes, count] of layers) {
      const arithmetic = work / peak, moving = bytes / bandwidth;
      seconds += count * Math.max(arithmetic, moving);
      if (moving > arithmetic) memory += count * moving;
    }
    return { seconds, memory: memory / seconds };
  };

  const draw = (svg, layers, peak, bandwidth) => {
    const top = peak * 2, floor = Math.min(bandwidth * LOW, peak / 10000);
    const x = value => LEFT + (WIDTH - LEFT - EDGE) * Math.log(value / LOW) / Math.log(HIGH / LOW);
    const y = value => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - EDGE) * Math.log(value / floor) / Math.log(top / floor);
    const roof = value => Math.min(peak, value * bandwidth);
    const ridge = Math.min(Math.max(peak / bandwidth, LOW), HIGH);
    const corners = [LOW, ridge, HIGH].map(value => `${x(value)},${y(roof(value))}`).join(" ");
    let grid = `M${LEFT},${EDGE}V${HEIGHT - BOTTOM}H${WIDTH - EDGE}`;
    const parts = [svgElement("polyline", { points: corners, fill: "none", stroke: "currentColor", "stroke-width": 1.5 })];
    for (let power = Math.log10(LOW); power <= Math.log10(HIGH); power += 1) {
      const value = 10 ** power;
      grid += `M${x(value)},${EDGE}V${HEIGHT - BOTTOM}`;
      parts.push(svgElement("text", { x: x(value), y: HEIGHT - BOTTOM + 14, "text-anchor": "middle" }, value.toLocaleString("en")));
    }
    for (let power = Math.ceil(Math.log10(floor)); 10 ** power < top; power += 1) {
      grid += `M${LEFT},${y(10 ** power)}H${WIDTH - EDGE}`;
      parts.push(svgElement("text", { x: LEFT - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, short(10 ** power / 1e9)));
    }
    const label = (words, at, down, anchor) => svgElement("text", { x: x(at), y: y(roof(at)) + down, "text-anchor": anchor }, words);
    parts.unshift(svgElement("path", { d: grid, class: "grid" }));
    parts.push(label("bound by arithmetic", HIGH, -7, "end"), label("bound by memory", 4 * LOW, 14, "start"));
    parts.push(svgElement("text", { x: (WIDTH + LEFT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, "Arithmetic intensity (FLOP/B)"), svgElement("text", { x: 4, y: 12 }, "Rate (GFLOP/s)"));
    for (const [work, bytes] of layers) {
      const intensity = work / bytes;
      if (intensity < LOW) continue; // layers without multiply-adds
      const near = intensity < ridge ? "memory" : "arithmetic";
      parts.push(svgElement("circle", { cx: x(intensity), cy: y(roof(intensity)), r: 3.5, class: near }));
    }
    svg.replaceChildren(...parts);
  };

  const start = ({ batch, networks, devices, throughput }) => {
    const number = (words, attributes) => {
      const input = Object.assign(element("input"), { type: "number", min: 0.001, step: "any", ...attributes });
      return [input, element("label", "", `${words} `, input)];
    };
    const choice = (words, names) => {
      const select = element("select");
      for (const name of names) select.append(element("option", "", name));
      return [select, element("label", "", `${words} `, select)];
    };
    // The site's own machines, as their row of the list says, then those with a data sheet.
    const own = [];
    const scale = { k: 1e3, M: 1e6, G: 1e9, T: 1e12 };
    const rate = text => { const [value, unit] = text.split(/\s/); return Number(value.replaceAll(",", "")) * (scale[unit?.[0]] ?? 1); };
    for (const item of place.querySelectorAll("li[data-peak]")) {
      const peak = rate(item.dataset.peak), bandwidth = rate(item.dataset.bandwidth);
      if (peak && bandwidth) own.push([item.textContent.trim(), [peak / 1e12, bandwidth / 1e9, null]]);
    }
    const known = new Map([...own, ...Object.entries(devices)]);
    const [device, deviceLabel] = choice("Device", known.keys());
    const [network, networkLabel] = choice("Network", Object.keys(networks));
    const [peak, peakLabel] = number("Peak (TFLOP/s)");
    const [bandwidth, bandwidthLabel] = number("Bandwidth (GB/s)");
    const clock = Object.assign(element("input"), { type: "range" });
    const clockWords = element("span");
    const clockLabel = element("label", "clock", clockWords, clock);
    const words = element("output");
    words.setAttribute("aria-live", "polite");
    const svg = svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "The roofline with the layers of the network at the nearer of its roofs" });

    const show = () => {
      const [ratedPeak, , ratedClock] = known.get(device.value);
      const unit = ratedClock ? "MHz" : "% of the rated";
      clockWords.textContent = `Clock: ${Number(clock.value).toLocaleString("en")} ${unit} `;
      clock.setAttribute("aria-valuetext", clockWords.textContent);
      const flops = Number(peak.value) * 1e12, bytes = Number(bandwidth.value) * 1e9;
      if (!(flops > 0 && bytes > 0)) { words.textContent = "Give a peak and a bandwidth above 0."; return; }
      const layers = networks[network.value], { seconds, memory } = least(layers, flops, bytes);
      draw(svg, layers, flops, bytes);
      const nearer = memory > 0.5 ? "memory" : "arithmetic";
      const sentences = [`A training step of ${network.value} on ${batch} images takes at least ${short(1000 * seconds)} ms (at most ${short(batch / seconds)} images/s). The nearer roof is ${nearer} for most of this time: memory for ${short(100 * memory)} %, arithmetic for ${short(100 - 100 * memory)} %.`];
      const printed = throughput[device.value]?.[network.value];
      if (printed) sentences.push(`A course study printed ${printed.toLocaleString("en")} images/s, ${short(100 * printed * seconds / batch)} % of this bound.`);
      if (device.value.includes("Laptop")) {
        const [t4] = devices.T4, lead = throughput.T4[network.value] / printed * Number(peak.value) / t4;
        sentences.push(`By printed throughputs the T4's efficiency is ${short(lead)} times the laptop's at this clock, with the T4 at its highest clock.`);
      }
      words.textContent = sentences.join(" ");
    };
    const choose = () => {
      const [ratedPeak, ratedBandwidth, ratedClock] = known.get(device.value), rated = ratedClock ?? 100;
      Object.assign(clock, { min: rated - 5 * Math.floor(rated / 10), max: 2 * rated, step: ratedClock ? 5 : 1, value: rated });
      peak.value = Number(ratedPeak.toPrecision(4));
      bandwidth.value = Number(ratedBandwidth.toPrecision(4));
      show();
    };
    clock.addEventListener("input", () => {
      const [ratedPeak, , ratedClock] = known.get(device.value);
      peak.value = Number((ratedPeak * clock.value / (ratedClock ?? 100)).toPrecision(4));
      show();
    });
    device.addEventListener("change", choose);
    for (const input of [network, peak, bandwidth]) input.addEventListener("input", show);

    place.querySelector(".without-scripts")?.remove();
    const box = element("fieldset", "explore", element("legend", "", "Explore the roofline"),
      deviceLabel, networkLabel, clockLabel, peakLabel, bandwidthLabel, svg, words);
    if (root) place.after(box); else place.append(box);
    choose();
  };

  site.load(`${root}assets/layers.js`).then(() => start(site.rooflines)).catch(() => {});
})();
