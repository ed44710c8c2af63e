// A table that is longer than anybody reads. The server says how many rows it has (data-rows) and shows
// the first ones; here it gets its whole length, and rows are asked for where somebody looks. They come
// in blocks, counted from the oldest row, so that a block that is full stays what it is.
"use strict";
{

// How far from the window rows are there, and after how long without scrolling they are asked for.
const NEAR = "150% 0px";
const REST_MS = 60;
// After how long it is asked again for what could not be read.
const AGAIN_MS = 2000;
const AT_ONCE = 2;
// As long as no row has been seen.
const ROW_PX = 29;

const near = new Set();
const watcher = new IntersectionObserver(meet, { rootMargin: NEAR });
let asking = 0;
let resting = 0;

const find_table = () => document.querySelector("table[data-rows]");
const is_newest_first = (table) => "newestFirst" in table.dataset;
const find_number = (block) => Number(block.dataset.block);
const is_gap = (block) => block.firstElementChild?.className === "gap";

// How many rows a block has once all of them are there.
function count_rows(table, number) {
  const size = Number(table.dataset.blockSize);
  return Math.min(size, table.dataset.rows - number * size);
}

function measure_row(table) {
  const block = [...table.tBodies].find((one) => !is_gap(one));
  return block?.offsetHeight / block?.rows.length || ROW_PX;
}

function make_gap(table, height) {
  const row = document.createElement("tr");
  row.className = "gap";
  row.ariaHidden = "true";
  row.append(document.createElement("td"));
  row.firstChild.colSpan = table.tHead.rows[0].cells.length;
  row.style.height = `${height}px`;
  return row;
}

function make_block(table, number, row_px) {
  const block = document.createElement("tbody");
  block.dataset.block = number;
  block.append(make_gap(table, count_rows(table, number) * row_px));
  return block;
}

// Gives the table a place for every block, in order.
function arrange() {
  const table = find_table();
  if (table === null) return;
  const blocks = new Map([...table.tBodies].map((block) => [find_number(block), block]));
  const count = Math.ceil(table.dataset.rows / table.dataset.blockSize);
  const row_px = measure_row(table);
  let last = table.tHead;
  for (let at = 0; at < count; at++) {
    const number = is_newest_first(table) ? count - 1 - at : at;
    const block = blocks.get(number) ?? make_block(table, number, row_px);
    if (last.nextElementSibling !== block) last.after(block);
    watcher.observe(block);
    last = block;
  }
  rest();
}

function meet(entries) {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) near.add(target); else near.delete(target);
    if (!isIntersecting && target.isConnected) empty(target);
  }
  rest();
}

// What is far away is not kept, unless somebody has begun something in it.
function empty(block) {
  if (is_gap(block) || block.querySelector("details[open], :focus, :target") !== null) return;
  block.replaceChildren(make_gap(block.closest("table"), block.offsetHeight));
}

function rest() {
  clearTimeout(resting);
  resting = setTimeout(fill, REST_MS);
}

function fill() {
  for (const block of near) {
    if (!block.isConnected) near.delete(block);
    else if (asking < AT_ONCE && !("asked" in block.dataset) && lacks_rows(block)) ask(block);
  }
}

const lacks_rows = (block) => is_gap(block) || block.rows.length < count_rows(block.closest("table"), find_number(block));

async function ask(block) {
  const table = block.closest("table");
  const first = find_number(block) * table.dataset.blockSize + 1;
  asking += 1;
  block.dataset.asked = "";
  const found = await read(`${table.dataset.more}&part=rows&first=${first}`);
  asking -= 1;
  delete block.dataset.asked;
  // Nobody may look there any more.
  if (found !== null && near.has(block) && block.isConnected) add(table, block, found);
  if (found !== null) fill(); else setTimeout(fill, AGAIN_MS);
}

async function read(address) {
  const made = document.createElement("template");
  try {
    const answer = await fetch(address, { headers: { "HX-Request": "true" }, credentials: "same-origin" });
    if (answer.ok) made.innerHTML = await answer.text();
  } catch {
    // The server is away, which the page says.
  }
  return made.content.querySelector("tbody[data-block]");
}

// Adds rows that the block does not have. Whoever is at the end of the page stays there, however high
// they are.
function add(table, block, found) {
  const root = document.documentElement;
  const is_at_end = root.scrollTop > 0 && root.scrollTop + innerHeight >= root.scrollHeight - 2;
  if (is_gap(block)) {
    block.replaceChildren(...found.children);
  } else {
    const known = new Set([...block.rows].map((row) => row.id));
    const added = [...found.rows].filter((row) => !known.has(row.id));
    block[is_newest_first(table) ? "prepend" : "append"](...added);
  }
  show_times(block);
  if (is_at_end) root.scrollTop = root.scrollHeight;
}

// The page has been looked at again, and the table is still that of the same list: another one has
// another id.
function take_news(table, now) {
  table.dataset.rows = now.dataset.rows;
  const blocks = new Map([...table.tBodies].map((block) => [find_number(block), block]));
  for (const found of [...now.tBodies]) {
    const block = blocks.get(find_number(found));
    if (block === undefined) table.append(found);
    else if (!is_gap(block)) add(table, block, found);
  }
}

Idiomorph.defaults.callbacks.beforeNodeMorphed = (old, now) => {
  if (!(old instanceof HTMLTableElement && "rows" in old.dataset)) return true;
  take_news(old, now);
  return false;
};

// Whoever comes by an address that says where sees that, though rows before it have their place now.
function show_asked() {
  const table = find_table();
  if (table === null) return;
  const row = location.hash.startsWith("#v") ? document.getElementById(location.hash.slice(1)) : null;
  if (row !== null) row.scrollIntoView({ block: "center" });
  else if (new URLSearchParams(location.search).has("first")) {
    [...table.tBodies].find((block) => !is_gap(block))?.scrollIntoView({ block: "start" });
  }
}

document.addEventListener("htmx:configRequest", ({ detail }) => {
  const table = find_table();
  if (table !== null && detail.elt.matches("[data-live]")) detail.headers["Rows-Known"] = table.dataset.rows;
});
document.addEventListener("htmx:afterSettle", arrange);
arrange();
show_asked();
}
