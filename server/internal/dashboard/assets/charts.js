// Charts: a figure names its source, is drawn once from that, and grows by a point
// with each event of the page's stream.
(() => {
  "use strict"

  const hour = 3600

  // missed is from how many seconds between two points on some are missing there.
  const missed = 10

  const units = {
    rate: (n) => short(n) + "/s",
    count: (n) => short(n),
    bytes: (n) => {
      const steps = ["B", "kB", "MB", "GB", "TB"]
      while (n >= 1024 && steps.length > 1) {
        n /= 1024
        steps.shift()
      }
      return `${digits(n)} ${steps[0]}`
    },
    seconds: (n) => n >= 120 ? `${digits(n / 60)} min` : `${digits(n)} s`,
  }
  const digits = (n) => n >= 100 || Number.isInteger(n) ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2)
  const short = (n) => n >= 1e6 ? digits(n / 1e6) + "M" : n >= 1e4 ? digits(n / 1e3) + "k" : digits(n)

  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" })

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

  // steps are those of the axis of time, in seconds.
  const steps = [1, 5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1800, 3600]

  // binary are the steps of an axis of bytes.
  const binary = Array.from({ length: 45 }, (_, i) => 2 ** i)

  // top is a round number above what is shown, so that the scale rests while the
  // values move a little.
  const top = (max, bytes) => {
    if (!(max > 0)) return 1
    const base = bytes ? 1024 ** Math.floor(Math.log(max) / Math.log(1024)) : 1
    const scaled = max / base
    const power = 10 ** Math.floor(Math.log10(scaled))
    return base * power * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= scaled)
  }

  // load fetches what a figure shows; nothing if that cannot be had now.
  const load = async (figure) => {
    try {
      const answer = await fetch(figure.dataset.source, { headers: { Accept: "application/json" } })
      return answer.ok ? await answer.json() : null
    } catch {
      return null
    }
  }

  const columns = (data) => [data.at, ...data.lines.map((line) => line.values)]

  class Chart {
    constructor(figure, data) {
      this.figure = figure
      this.plot = figure.querySelector(".plot")
      this.unit = units[figure.dataset.unit] ?? units.count
      this.names = data.lines.map((line) => line.name)
      this.data = columns(data)
      this.window = Number(figure.querySelector(".ranges [aria-pressed=true]")?.value ?? 900)
      this.draw()
      new ResizeObserver(() => this.fit()).observe(this.plot)
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw())
      figure.addEventListener("sse:points", (event) => this.grow(JSON.parse(event.detail.data)[figure.id]))
      figure.querySelector(".ranges")?.addEventListener("click", (event) => this.range(event.target.closest("button")))
    }

    draw() {
      this.chart?.destroy()
      this.tip?.remove()
      if (this.data[0].length < 2) return
      this.plot.replaceChildren()
      const axis = { stroke: colour("--ink-3"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11.5px " + colour("--sans") }
      const series = this.names.map((name, i) => {
        const stroke = colour(`--line-${i % 6 + 1}`)
        return { label: name, stroke, width: 1.75, fill: i === 0 ? stroke + "1f" : undefined, points: { show: false } }
      })
      this.chart = new uPlot({
        width: this.plot.clientWidth,
        height: this.plot.clientHeight,
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, y: false, points: { size: 7 } },
        padding: [8, 26, 0, 0],
        scales: {
          x: { range: () => this.span() },
          y: { range: (_, __, max) => [0, top(max, this.figure.dataset.unit === "bytes")] },
        },
        axes: [
          { ...axis, grid: { show: false }, size: 28, gap: 6, space: 76, incrs: steps, values: (_, ticks) => this.times(ticks) },
          { ...axis, size: 62, space: 34, incrs: this.figure.dataset.unit === "bytes" ? binary : undefined, values: (_, ticks) => ticks.map((n) => this.unit(n)) },
        ],
        series: [{}, ...series],
        hooks: { setCursor: [(u) => this.point(u)] },
      }, this.data, this.plot)
      this.tip = document.createElement("div")
      this.tip.className = "tip"
      this.tip.hidden = true
      this.plot.append(this.tip)
    }

    // times writes the ticks of the axis, with seconds only where minutes do not do.
    times(ticks) {
      const fine = ticks.length > 1 && ticks[1] - ticks[0] < 60
      return ticks.map((t) => clock.format(t * 1000).slice(0, fine ? 8 : 5))
    }

    // span is the part of time that is shown: what was chosen, or as much as is known.
    span() {
      const at = this.data[0]
      const last = at[at.length - 1]
      return [Math.max(last - this.window, Math.min(at[0], last - 60)), last]
    }

    // grow adds a point. If some were missed, while the page was hidden or the connection was
    // lost, it fetches them all.
    async grow(point) {
      const last = this.data[0].at(-1) ?? 0
      if (!point || point.at <= last) return
      if (point.at - last > missed) {
        const data = await load(this.figure)
        if (!data) return // the next point tries again
        this.data = columns(data)
      } else {
        this.data[0].push(point.at)
        this.names.forEach((_, i) => this.data[i + 1].push(point.values[i] ?? null))
        while (this.data[0][0] < point.at - hour) for (const column of this.data) column.shift()
      }
      if (this.chart) this.chart.setData(this.data)
      else this.draw()
    }

    range(button) {
      if (!button) return
      for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button))
      this.window = Number(button.value)
      this.chart?.setData(this.data)
    }

    fit() {
      const { clientWidth: width, clientHeight: height } = this.plot
      if (this.chart && (width !== this.chart.width || height !== this.chart.height)) this.chart.setSize({ width, height })
    }

    // point shows the values under the cursor.
    point(u) {
      const { idx, left } = u.cursor
      const none = idx == null || left < 0
      this.tip.hidden = none
      if (none) return
      const row = (swatch, name, value) => {
        const line = document.createElement("div")
        line.className = "row"
        const mark = document.createElement("span")
        mark.className = swatch
        const strong = document.createElement("b")
        strong.textContent = value
        line.append(mark, name, strong)
        return line
      }
      const when = document.createElement("div")
      when.className = "muted"
      when.textContent = clock.format(this.data[0][idx] * 1000)
      this.tip.replaceChildren(when, ...this.names.map((name, i) => {
        const value = this.data[i + 1][idx]
        return row(`swatch l${i % 6 + 1}`, name, value == null ? "–" : this.unit(value))
      }))
      const x = u.over.offsetLeft + left
      const right = x + this.tip.offsetWidth + 24 > this.plot.clientWidth
      this.tip.style.left = `${right ? x - this.tip.offsetWidth - 12 : x + 12}px`
      this.tip.style.top = "8px"
    }
  }

  const begin = async (figure) => {
    const data = await load(figure)
    if (data) new Chart(figure, data)
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const figure of document.querySelectorAll("figure.chart")) begin(figure)
  })
})()
