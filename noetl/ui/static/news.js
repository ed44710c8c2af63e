// One stream of news for all pages of a browser: the pages say what they show, and hear when it has
// changed. Runs as a shared worker.
"use strict";

const AGAIN_MS = 3000;
const pages = new Map();
let source = null;
let address = "";
let timer = 0;
let isLost = false;

function find_address() {
  const shown = [...pages.values()];
  const ids = new Set(shown.flatMap((page) => page.ids));
  const asked = new URLSearchParams([...ids].sort().slice(0, 50).map((id) => ["id", id]));
  if (shown.some((page) => page.all)) asked.set("all", "1");
  return asked.toString();
}

function connect() {
  timer = 0;
  const wanted = find_address();
  if (wanted === address && source !== null) {
    // What it watches is watched already: it need only look once.
    for (const [port, page] of pages) if (page.isNew) greet(port, page);
    return;
  }
  if (source !== null) source.close();
  source = null;
  address = wanted;
  if (wanted === "") return;
  source = new EventSource("/news?" + wanted);
  source.addEventListener("hello", () => {
    for (const [port, page] of pages) if (page.isNew || isLost) greet(port, page);
    isLost = false;
  });
  source.addEventListener("changed", (event) => tell(JSON.parse(event.data)));
  source.onerror = lose;
}

function greet(port, page) {
  page.isNew = false;
  port.postMessage({ kind: "hello" });
}

function tell(changed) {
  for (const [port, page] of pages) {
    const ids = page.ids.filter((id) => changed.ids.includes(id));
    if (ids.length > 0 || (page.all && changed.any)) port.postMessage({ ...changed, kind: "changed" });
  }
}

function lose() {
  isLost = true;
  for (const port of pages.keys()) port.postMessage({ kind: "lost" });
  // Browsers connect again by themselves unless the answer was an error.
  if (source !== null && source.readyState === EventSource.CLOSED) {
    source = null;
    address = "";
    schedule(AGAIN_MS);
  }
}

function schedule(ms) {
  if (timer === 0) timer = setTimeout(connect, ms);
}

onconnect = (event) => {
  const port = event.ports[0];
  port.onmessage = ({ data }) => {
    if (data.all || data.ids.length > 0) pages.set(port, { all: data.all, ids: data.ids, isNew: true });
    else pages.delete(port);
    schedule(20);
  };
};
