// Small comforts of forms. Everything here can be done without.
(() => {
  "use strict"

  // Buttons that open and close dialogs, for browsers that do not know command.
  if (!("command" in HTMLButtonElement.prototype)) {
    document.addEventListener("click", (event) => {
      const button = event.target.closest("button[commandfor]")
      const dialog = button && document.getElementById(button.getAttribute("commandfor"))
      if (!dialog) return
      if (button.getAttribute("command") === "show-modal") dialog.showModal()
      else dialog.close()
    })
  }

  // A dialog whose form was sent has done its work.
  document.addEventListener("htmx:afterRequest", (event) => {
    event.target.closest("dialog")?.close()
    for (const dialog of event.target.querySelectorAll("dialog[open]")) dialog.close()
  })

  // What is dangerous stays out of reach until its name was typed.
  const armed = (input) => {
    const button = input.closest("dialog")?.querySelector("button[data-armed]")
    if (button) button.disabled = input.value !== input.dataset.confirm
  }
  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-confirm]")) armed(event.target)
  })

  // Enter in a list does what the open dialog is about, and nothing where none is.
  document.addEventListener("submit", (event) => {
    if (!event.submitter?.matches("[data-inert]")) return
    event.preventDefault()
    event.stopPropagation()
    const button = event.target.querySelector("dialog[open] [data-does]")
    setTimeout(() => button?.click()) // a form cannot be sent while it is being sent
  }, true)

  // How many are chosen, and all at once.
  const chosen = (form) => {
    const boxes = [...form.querySelectorAll("[data-pick]")]
    const n = boxes.filter((box) => box.checked).length
    for (const out of form.querySelectorAll("[data-chosen]")) out.textContent = String(n)
    for (const button of form.querySelectorAll("[data-needs-choice]")) button.disabled = n === 0
    const all = form.querySelector("[data-pick-all]")
    if (all) {
      all.checked = n > 0 && n === boxes.length
      all.indeterminate = n > 0 && n < boxes.length
    }
  }
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form")
    if (!form) return
    if (event.target.matches("[data-pick-all]")) {
      for (const box of form.querySelectorAll("[data-pick]")) box.checked = event.target.checked
    }
    if (event.target.matches("[data-pick], [data-pick-all]")) chosen(form)
  })

  const ready = () => {
    for (const input of document.querySelectorAll("[data-confirm]")) armed(input)
    for (const form of document.querySelectorAll("form")) if (form.querySelector("[data-pick]")) chosen(form)
  }
  document.addEventListener("DOMContentLoaded", () => {
    ready()
    const here = document.querySelector(".sections [aria-current]") // on a phone it may be out of sight
    here?.parentElement.scrollTo({ left: here.offsetLeft - (here.parentElement.clientWidth - here.clientWidth) / 2 })
  })
  document.addEventListener("htmx:afterSettle", ready)
})()
