"use strict";

// Theme: as the system, light, dark. Charts are pictures, so their sources follow.
const THEMES = { "": "system", light: "light", dark: "dark" };
const MEDIA = { "": "(prefers-color-scheme: dark)", light: "not all", dark: "all" };

function showTheme() {
  const chosen = document.documentElement.dataset.theme || "";
  const button = document.getElementById("theme");
  button.hidden = false;
  button.querySelector("span").textContent = THEMES[chosen];
  for (const source of document.querySelectorAll("picture source")) source.media = MEDIA[chosen];
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const root = document.documentElement;
  const chosen = names[(names.indexOf(root.dataset.theme || "") + 1) % names.length];
  if (chosen) root.dataset.theme = chosen;
  else delete root.dataset.theme;
  try { localStorage.setItem("theme", chosen); } catch { /* chosen for this page alone */ }
  showTheme();
}

showTheme();
document.getElementById("theme").addEventListener("click", nextTheme);

// The sheet: line numbers, faults at their lines, files dropped or opened.
const sheet = document.getElementById("text");
if (sheet) {
  const lines = sheet.parentElement.querySelector(".lines");
  const faults = document.getElementById("faults");

  const draw = () => {
    const bad = new Set([...faults.querySelectorAll("[data-line]")].map((each) => each.dataset.line));
    const count = sheet.value.split("\n").length;
    const rows = [];
    for (let number = 1; number <= count; number += 1) {
      const row = document.createElement("span");
      row.textContent = String(number);
      if (bad.has(String(number))) row.className = "wrong";
      rows.push(row);
    }
    lines.replaceChildren(...rows);
    sheet.setAttribute("aria-invalid", String(faults.querySelector(".faults") !== null));
    lines.scrollTop = sheet.scrollTop;
  };
  const put = async (file) => {
    if (!file) return;
    if (file.size > 1048576) {
      faults.textContent = `${file.name} is larger than 1 MiB, too large for a deployment.`;
      draw();
      return;
    }
    sheet.value = await file.text();
    draw();
    sheet.dispatchEvent(new Event("opened"));
  };
  const go = (line, column) => {
    const before = sheet.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    sheet.focus();
    sheet.setSelectionRange(before + column - 1, before + column - 1);
    sheet.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(sheet).lineHeight));
  };

  sheet.addEventListener("input", draw);
  sheet.addEventListener("scroll", () => { lines.scrollTop = sheet.scrollTop; });
  document.body.addEventListener("htmx:afterSwap", draw);
  const unchecked = () => { faults.textContent = "This could not be checked. If it lasts, load the page again."; };
  document.body.addEventListener("htmx:responseError", unchecked);
  document.body.addEventListener("htmx:sendError", unchecked);
  faults.addEventListener("click", (event) => {
    const { line, column } = event.target.dataset;
    if (line) go(Number(line), Number(column));
  });
  sheet.addEventListener("dragover", (event) => {
    event.preventDefault();
    sheet.classList.add("over");
  });
  sheet.addEventListener("dragleave", () => sheet.classList.remove("over"));
  sheet.addEventListener("drop", (event) => {
    sheet.classList.remove("over");
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    put(event.dataTransfer.files[0]);
  });
  document.getElementById("open").addEventListener("change", async (event) => {
    await put(event.target.files[0]);
    event.target.value = "";  // the same file again is a change too
  });
  draw();
}

// A form that plans takes a moment: say so, and take no second press.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", (event) => {
    if (form.getAttribute("aria-busy")) event.preventDefault();
    form.setAttribute("aria-busy", "true");
  });
}
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("[aria-busy]")) form.removeAttribute("aria-busy");
});

// A sweep that runs: how far it is, and its rows once it has ended.
const progress = document.getElementById("progress");
if (progress) {
  const events = new EventSource(progress.dataset.events);
  events.addEventListener("progress", (event) => {
    const sweep = JSON.parse(event.data);
    progress.querySelector(".state").textContent = sweep.status;
    progress.querySelector(".rows").textContent = sweep.rows.toLocaleString("en");
    progress.querySelector("progress").value = sweep.rows;
  });
  events.addEventListener("end", () => {
    events.close();
    location.reload();
  });
  window.addEventListener("pagehide", () => events.close());
}
