// What the keyboard does on every page: the drawer of a step, the filter, and the list of keys. Nothing of it where
// somebody types.
"use strict";
{

const KEYS = [
  ["/", "Go to the filter"],
  ["Esc", "Close the step, or the dialog"],
  ["?", "List the keys"],
];

const find_drawer = () => document.getElementById("drawer");
const is_typing = (target) => target.closest("input, textarea, select, [contenteditable], .ace_editor") !== null;

// Which step is open, and what had the focus before it was.
let opened = find_drawer()?.ariaLabel ?? null;
let opener = null;

document.addEventListener("click", ({ target }) => {
  const link = target.closest("#execution a[href]");
  if (link !== null && find_drawer() === null) opener = link;
}, true);

document.addEventListener("htmx:afterSettle", () => {
  const drawer = find_drawer();
  const now = drawer?.ariaLabel ?? null;
  if (now === opened) return;
  if (now === null) give_back(); else drawer.focus({ preventScroll: true });
  opened = now;
});

function give_back() {
  if (opener?.isConnected) opener.focus({ preventScroll: true });
  opener = null;
}

// The row of the step is where one goes on that came by an address.
function close_drawer() {
  opener = opener?.isConnected ? opener : document.querySelector(".step-rows a[aria-current]");
  find_drawer().querySelector(".shut").click();
}

function find_filter() {
  const fields = document.querySelectorAll("main :is(form.filters, form[role=search]) :is([type=search], [type=text])");
  return [...fields].find((one) => one.checkVisibility());
}

function list_keys() {
  const title = document.createElement("h1");
  title.id = "dialog-title";
  title.textContent = "Keys";
  const list = document.createElement("dl");
  list.className = "keys";
  for (const [key, does] of KEYS) {
    const name = document.createElement("dt");
    name.append(Object.assign(document.createElement("kbd"), { textContent: key }));
    list.append(name, Object.assign(document.createElement("dd"), { textContent: does }));
  }
  const buttons = document.createElement("p");
  buttons.className = "buttons";
  buttons.append(Object.assign(document.createElement("button"), { className: "close", textContent: "Close", autofocus: true }));
  const dialog = document.getElementById("dialog");
  dialog.replaceChildren(title, list, buttons);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (document.getElementById("dialog").open || is_typing(target)) return;
  if (key === "Escape" && find_drawer() !== null) close_drawer();
  else if (key === "/" && find_filter() !== undefined) find_filter().focus();
  else if (key === "?") list_keys();
  else return;
  event.preventDefault();
});
}
