// Figures and names in words. The page's tables say them alike; see _words.py.
const NsysWords = (() => {
  "use strict";
  const grouped = d3.format(",");

  function scaled(value, scales, rest) {
    for (const [scale, unit, digits] of scales) {
      if (value >= scale) return `${d3.format(`,.${digits(value / scale)}f`)(value / scale)} ${unit}`;
    }
    return `${Math.round(value)} ${rest}`;
  }
  const three = (value) => (value < 10 ? 2 : value < 1000 ? 1 : 0);
  const one = () => 1;
  // A time in the unit that fits.
  const duration = (ns) => scaled(ns, [[1e9, "s", three], [1e6, "ms", three], [1e3, "us", three]], "ns");
  const size = (bytes) => scaled(bytes, [[1e9, "GB", one], [1e6, "MB", one], [1e3, "kB", one]], "B");

  // A time of the session, to the nanosecond.
  const moment = (ns) => `${d3.format(",.6f")(ns / 1e6)} ms`;

  // Unit and digits at which times that are some ns apart can be told apart.
  function precision(step, whole) {
    const [unit, name] = whole >= 4e9 ? [1e9, "s"] : [1e6, "ms"];
    const digits = Math.min(Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9)), 9);
    const format = d3.format(`,.${digits}f`);
    return (ns) => `${format(ns / unit)} ${name}`;
  }
  // A stretch of time, in as many digits as its length asks for.
  function stretch(from, to) {
    const show = precision(10 ** Math.floor(Math.log10(Math.max(to - from, 1))) / 100, to - from);
    return `${show(from)} to ${show(to)} (${duration(to - from)})`;
  }

  function share(part, whole) {
    const percent = (100 * part) / whole;
    return percent > 0 && percent < 0.05 ? "<0.1 %" : `${percent.toFixed(1)} %`;
  }

  // The words of a payload's names: what the columns of its tracks stand for.
  function of(data) {
    const { causes, lanes, outside } = data.words;
    const kind = (track) => ({ gaps: "idle gaps", idle: "cause of idle" })[track.kind] ?? lanes[track.kind];
    function cause(track, i) {
      const code = data.causes[track.cause[i]];
      const name = data.names[track.name[i]];
      const via = data.names[track.via[i]];
      let text = causes[code];
      if (code === "cuda_api" || code === "osrt") text = name || text;
      else if (code !== "host" && name) text = `${text} (${name})`;
      return via ? `${text} via ${via}` : text;
    }
    function thread(index) {
      const found = data.threads[index];
      return found ? `thread ${found.tid}${found.name ? ` ${found.name}` : ""}` : "no thread known";
    }
    // Who held the feeding thread up, if anybody did.
    const holder = (track, i) =>
      track.holder[i] ? `${thread(track.holder[i] - 1)} in ${data.names[track.held[i]]}` : "";
    // Where the feeding thread was.
    function place(track, i) {
      const path = data.names[track.path[i]];
      return path === outside ? path : `in ${path}`;
    }
    // What is written on a bar.
    function label(track, i) {
      if (track.count && track.count[i] > 1) return `${grouped(track.count[i])} events`;
      if (track.kind === "gaps") return duration(track.length[i]);
      if (track.kind === "idle") return cause(track, i);
      if (track.bytes) return size(track.bytes[i]);
      return track.name ? data.names[track.name[i]] : kind(track);
    }
    // The same where there is room.
    function title(track, i) {
      const one = !(track.count && track.count[i] > 1);
      return one && track.bytes ? `${track.kind} copy of ${size(track.bytes[i])}` : label(track, i) || "(no name)";
    }
    // The same on a bar, and who held the feeding thread up.
    function onBar(track, i) {
      const held = track.kind === "idle" && !(track.count && track.count[i] > 1) && holder(track, i);
      return held ? `${label(track, i)}: ${held}` : label(track, i);
    }
    return { kind, cause, thread, holder, label, title, place, onBar };
  }

  return { grouped, duration, size, moment, precision, stretch, share, of };
})();
