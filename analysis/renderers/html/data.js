// What a page's timeline shows: the lanes, decoded, and what is seen of them at some scale.
// The payload is described in _timeline.py. Nothing here touches the document.
const NsysData = (() => {
  "use strict";

  async function inflate(text) {
    const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  function decode(bytes) {
    const length = new DataView(bytes.buffer).getUint32(0);
    const data = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
    let at = 4 + length;
    const column = (rows) => {
      const values = new Float64Array(rows);
      for (let i = 0; i < rows; i++) {
        let byte = bytes[at++];
        let value = byte & 127;
        for (let scale = 128; byte > 127; scale *= 128) {
          byte = bytes[at++];
          value += (byte & 127) * scale;
        }
        values[i] = value;
      }
      return values;
    };
    const track = ({ kind, depth, rows, columns }) => {
      const found = { kind, depth, rows };
      for (const name of columns) found[name] = column(rows);
      return complete(found);
    };
    for (const group of data.groups) group.tracks = group.tracks.map(track);
    data.gaps = data.gaps.map(track);
    return data;
  }

  // Starts come as differences. Times count from the first one; only the axis shows session time.
  function complete(track) {
    const { start, length, rows } = track;
    const end = new Float64Array(rows);
    const busy = new Float64Array(rows + 1);
    for (let i = 0, time = 0; i < rows; i++) {
      start[i] = time += start[i];
      end[i] = time + length[i];
      busy[i + 1] = busy[i] + length[i] - (track.hole ? track.hole[i] : 0);
      if (track.count) track.count[i] += 1;
    }
    return Object.assign(track, { end, busy, longest: longestOfBlocks(length) });
  }

  // The longest event of a stretch names it; blocks make that quick.
  const BLOCK = 64;
  function longestOfBlocks(lengths) {
    const found = new Int32Array(Math.ceil(lengths.length / BLOCK));
    for (let b = 0; b < found.length; b++) {
      let best = b * BLOCK;
      const stop = Math.min(best + BLOCK, lengths.length);
      for (let i = best + 1; i < stop; i++) if (lengths[i] > lengths[best]) best = i;
      found[b] = best;
    }
    return found;
  }

  function longestIn(track, from, to) {
    let best = from;
    for (let i = from; i < to; ) {
      if (i % BLOCK === 0 && i + BLOCK <= to) {
        const candidate = track.longest[i / BLOCK];
        if (track.length[candidate] > track.length[best]) best = candidate;
        i += BLOCK;
      } else {
        if (track.length[i] > track.length[best]) best = i;
        i++;
      }
    }
    return best;
  }

  // The event that speaks for a stretch: the longest; of idle time, that of the cause that fills
  // most of it, which may come in many pieces.
  function mainIn(track, from, to) {
    if (!track.cause || to - from < 2) return longestIn(track, from, to);
    const sums = new Map();
    for (let i = from; i < to; i++) {
      const found = sums.get(track.cause[i]) ?? { ns: 0, index: i };
      found.ns += track.busy[i + 1] - track.busy[i];
      if (track.length[i] > track.length[found.index]) found.index = i;
      sums.set(track.cause[i], found);
    }
    return [...sums.values()].reduce((most, found) => (found.ns > most.ns ? found : most)).index;
  }

  const bisect = d3.bisector((value) => value);
  // The first event that ends after a time; the first that starts at it or later.
  const endsAfter = (track, time) => bisect.right(track.end, time);
  const startsFrom = (track, time, from = 0) => bisect.left(track.start, time, from);

  // An event is drawn on its own from so many pixels on.
  const OWN = 1.5;
  // What a track shows between two times: events on their own, and bars of those that share a
  // pixel, which say how much of their width is covered. No event is left out.
  function* bars(track, x, from, to) {
    const { start, end, busy, rows } = track;
    const perPixel = x.invert(1) - x.invert(0);
    for (let i = endsAfter(track, from); i < rows && start[i] < to; ) {
      const left = x(start[i]), right = x(end[i]);
      if (right - left >= OWN) {
        yield { index: i, events: 1, left, right, covers: 1, joined: false };
        i++;
        continue;
      }
      const pixel = Math.floor(left);
      let next = startsFrom(track, x.invert(pixel + 1), i + 1);
      if (next - 1 > i && x(end[next - 1]) - x(start[next - 1]) >= OWN) next--;
      const until = x(end[next - 1]);
      const covered = (busy[next] - busy[i]) / perPixel;
      yield {
        index: mainIn(track, i, next),
        events: next - i,
        left: pixel,
        right: Math.max(Math.ceil(until), pixel + 1),
        covers: Math.min(covered / Math.max(until - left, 1), 1),
        joined: true,
      };
      i = next;
    }
  }

  // The parts of a stretch of idle time, largest first: its segments of one cause, range and holder
  // added up.
  function parts(track, start, end) {
    const found = new Map();
    for (let i = endsAfter(track, start); i < track.rows && track.start[i] < end; i++) {
      const ns = Math.min(track.end[i], end) - Math.max(track.start[i], start);
      const key = partKey(track, i);
      const part = found.get(key) ?? { index: i, ns: 0 };
      part.ns += ns;
      found.set(key, part);
    }
    return [...found.values()].sort((a, b) => b.ns - a.ns);
  }
  const partKey = ({ cause, name, via, path, holder, held }, i) =>
    [cause[i], name[i], via[i], path[i], holder[i], held[i]].join();

  // The gap at a time, or up to some ns from it; -1 for none.
  function gapAt(gaps, time, slack = 0) {
    const i = endsAfter(gaps, time - slack);
    return i < gaps.rows && gaps.start[i] <= time + slack ? i : -1;
  }

  // A call may begin on either side of the gap or event that it is told with; see `_beside` in
  // _timeline.py.
  function callStart(track, i) {
    const offset = track.callAt[i];
    return track.start[i] + (offset % 2 ? -(offset + 1) / 2 : offset / 2);
  }

  // The event that starts at a time, of those of one of some tracks, as track and index.
  function startingAt(tracks, time) {
    for (const track of tracks) {
      const index = startsFrom(track, time);
      if (index < track.rows && track.start[index] === time) return { track, index };
    }
    return null;
  }

  return { inflate, decode, complete, longestIn, mainIn, endsAfter, startsFrom, bars, parts, gapAt, callStart, startingAt };
})();
