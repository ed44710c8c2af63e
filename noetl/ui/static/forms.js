// What pages do with forms: a choice of rows, filters that keep the way back, plans that are no
// longer those of what was typed, and what is shown once. Without it every form still works.
"use strict";

// --- a choice of rows --------------------------------------------------------------------------------

// Their ids: the server does not know them when it renders the rows again.
const chosen = new Set();

function show_chosen() {
  for (const form of document.querySelectorAll("form.chosen")) {
    const boxes = [...form.querySelectorAll("input[name=id]")];
    for (const box of boxes) box.checked = chosen.has(box.value);
    const count = boxes.filter((box) => box.checked).length;
    form.classList.toggle("some", count > 0);
    form.classList.add("scripted");
    form.querySelector(".chosen-count").textContent = count + " selected:";
    const all = form.querySelector("[data-all]");
    all.hidden = false;
    all.checked = count > 0 && count === boxes.length;
    all.indeterminate = count > 0 && count < boxes.length;
  }
}

document.addEventListener("change", ({ target }) => {
  if (target.closest("form.chosen") === null) return;
  const boxes = target.matches("[data-all]") ? target.form.querySelectorAll("input[name=id]") : [target];
  for (const box of boxes) chosen[target.checked ? "add" : "delete"](box.value);
  show_chosen();
});

// --- filters -----------------------------------------------------------------------------------------

// An address says what is filtered, and nothing of what is not. Each filter is a step of the way back; what is
// typed into one field, letter by letter, is one step.
let typedIn = null;

function tidy({ elt, formData, triggeringEvent }) {
  for (const [name, value] of [...formData.entries()]) if (value === "") formData.delete(name);
  const field = triggeringEvent?.target;
  const goes_on = field === typedIn && field?.matches("[type=search], [type=text]");
  typedIn = field;
  // The one that says "false" would win.
  elt.removeAttribute(goes_on ? "hx-push-url" : "hx-replace-url");
  elt.setAttribute(goes_on ? "hx-replace-url" : "hx-push-url", "true");
}

// --- plans -------------------------------------------------------------------------------------------

// What would be done is shown again before it is done, if anything else was typed since.
document.addEventListener("input", ({ target }) => {
  const form = target.closest("form.again");
  const again = form?.querySelector("button[name=sure][value='']");
  if (!again || target.name === "confirmed") return;
  const begin = form.querySelector("button.main");
  begin.disabled = true;
  begin.title = `${again.textContent} first: something else was typed.`;
});

// --- what somebody types -------------------------------------------------------------------------------

// Whether somebody has begun to fill in a form of the part: looking again would take that away.
function is_typed_in(part) {
  const fields = [...part.querySelectorAll("form.asking :is(input, textarea, select)")];
  return fields.some((one) => (one.type === "checkbox" ? one.checked !== one.defaultChecked : one.value !== find_default(one)));
}

function find_default(field) {
  if (field.options === undefined) return field.defaultValue;
  return ([...field.options].find((one) => one.defaultSelected) ?? field.options[0])?.value;
}

// --- what is shown once --------------------------------------------------------------------------------

// All of it is marked, to be copied; it may have had the focus before this was read.
function mark_once(target) {
  if (target?.matches("input[data-once]")) target.select();
}

document.addEventListener("focusin", ({ target }) => mark_once(target));
mark_once(document.activeElement);

// Browsers keep pages as they were, for whoever goes back.
addEventListener("pagehide", () => {
  for (const one of document.querySelectorAll("[data-once]")) one.remove();
});
