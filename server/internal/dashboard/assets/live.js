// What keeps a page live: numbers that change in place, and a connection that
// comes back by itself.
(() => {
  "use strict"

  // local writes moments in the zone of their reader, with the date unless that is
  // today. The server, which does not know the zone, writes them in UTC.
  const day = new Intl.DateTimeFormat("sv") // as ISO 8601 has it
  const clock = new Intl.DateTimeFormat("sv", { timeStyle: "medium" })
  const zone = day.resolvedOptions().timeZone

  const local = (root) => {
    const today = day.format()
    for (const time of root.querySelectorAll("time")) {
      const at = new Date(time.dateTime)
      const [date, hours] = [day.format(at), clock.format(at)]
      time.title = `${date} ${hours}.${String(at.getMilliseconds()).padStart(3, "0")} ${zone}`
      if (!("relative" in time.dataset)) time.textContent = date === today ? hours : `${date} ${hours}`
    }
  }
  local(document)
  // What was fetched is written anew before it is painted; htmx:load comes later.
  document.addEventListener("htmx:afterSwap", () => local(document))

  // keyOf says which element of a list this is, so that it may move and keep what
  // the reader did with it.
  const keyOf = (node) => node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset.key || "" : ""

  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b)

  // patch makes an element like another one and touches only what differs: the
  // focus, a selection, what was opened and what is being hovered over stay.
  const patch = (have, want) => {
    if (have.nodeType !== Node.ELEMENT_NODE) {
      if (have.data !== want.data) have.data = want.data
      return
    }
    if ("keep" in have.dataset) return // it belongs to a script
    for (const { name, value } of want.attributes) {
      if (have.getAttribute(name) !== value) have.setAttribute(name, value)
    }
    for (const { name } of [...have.attributes]) {
      if (name !== "open" && !want.hasAttribute(name)) have.removeAttribute(name)
    }
    patchChildren(have, want)
  }

  const patchChildren = (have, want) => {
    const keyed = new Map()
    for (const child of have.children) if (keyOf(child)) keyed.set(keyOf(child), child)
    let at = have.firstChild
    for (const wanted of [...want.childNodes]) {
      const key = keyOf(wanted)
      const found = key ? keyed.get(key) : at
      if (!found || !alike(found, wanted)) {
        have.insertBefore(wanted, at)
        continue
      }
      keyed.delete(key)
      if (found === at) at = at.nextSibling
      else have.insertBefore(found, at)
      patch(found, wanted)
    }
    while (at) {
      const next = at.nextSibling
      at.remove()
      at = next
    }
  }

  htmx.defineExtension("patch", {
    isInlineSwap: (style) => style === "patch",
    handleSwap: (style, target, fragment) => {
      if (style !== "patch") return false
      local(fragment)
      patchChildren(target, fragment)
      return []
    },
  })

  const linked = (state) => { document.documentElement.dataset.link = state }

  // A stream is an EventSource that is opened again after it failed, ever more
  // slowly, and closed while the page is hidden: a browser has six connections to a host,
  // for all its tabs.
  const longest = 15000

  htmx.createEventSource = (url) => {
    const listeners = []
    let source = null
    let timer = 0
    let pause = 500
    const stream = {
      readyState: EventSource.CONNECTING,
      addEventListener: (name, listener) => {
        listeners.push([name, listener])
        source?.addEventListener(name, listener)
      },
      removeEventListener: (name, listener) => source?.removeEventListener(name, listener),
      close: () => {
        clearTimeout(timer)
        source?.close()
        source = null
      },
    }
    const open = () => {
      stream.close()
      source = new EventSource(url)
      for (const [name, listener] of listeners) source.addEventListener(name, listener)
      source.onopen = () => {
        pause = 500
        linked("live")
      }
      source.onerror = () => {
        stream.close()
        linked("lost")
        timer = setTimeout(open, pause)
        pause = Math.min(2 * pause, longest)
      }
    }
    const toggle = () => {
      if (!document.hidden) return source || open()
      stream.close()
    }
    document.addEventListener("visibilitychange", toggle)
    addEventListener("pagehide", stream.close)
    addEventListener("pageshow", toggle)
    open()
    return stream
  }
})()
