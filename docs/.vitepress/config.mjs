import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vitepress'
import { leadsTo, repository, slug } from './links.mjs'

const root = process.env.MILLRACE_SITE_ROOT

// titled lists pages with the words of their headings.
function titled(...pages) {
  return pages.map(page => ({ text: title(page), link: `/${page}` }))
}

function title(page) {
  const [, heading] = readFileSync(join(root, 'docs', `${page}.md`), 'utf8').match(/^# (.*)$/m)
  return heading.replaceAll('`', '')
}

function pagesOf(folder) {
  return readdirSync(join(root, 'docs', folder)).filter(name => name.endsWith('.md')).map(name => join(folder, name.slice(0, -3)))
}

// The order of llms.txt is that of the sidebar, so that each page has one place.
function sidebar() {
  const groups = []
  for (const line of readFileSync(join(root, 'llms.txt'), 'utf8').split('\n')) {
    const heading = line.match(/^## (.*)$/)
    if (heading) groups.push({ text: heading[1], items: [] })
    for (const [, page] of line.matchAll(/\]\(docs\/([^)/]+)\.md\)/g)) groups.at(-1).items.push(...titled(page))
  }
  const known = new Set(groups.flatMap(group => group.items.map(item => item.link)))
  const missing = pagesOf('.').filter(page => !known.has(`/${page}`))
  if (missing.length > 0) throw new Error(`llms.txt does not name docs/${missing[0]}.md`)
  return [...groups, { text: 'Decisions', collapsed: true, items: titled(...pagesOf('decisions')) }]
}

export default defineConfig({
  title: 'Millrace',
  description: 'Fair queues on the Redis you already have, in Go',
  base: '/millrace/',
  lang: 'en',
  cleanUrls: true,
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  markdown: {
    html: false, // <name> in a page is text, and no element
    anchor: { slugify: slug },
    config(md) {
      md.core.ruler.before('normalize', 'comments', state => {
        state.src = state.src.replace(/^<!--.*-->$/gm, '')
      })
      md.core.ruler.push('millrace', ({ tokens, env }) => {
        const page = env.relativePath === 'index.md' ? 'README.md' : `docs/${env.relativePath}`
        for (const token of tokens.filter(t => t.type === 'code_block')) {
          Object.assign(token, { type: 'fence', info: 'text', markup: '```' }) // which has a frame that scrolls
        }
        for (const token of tokens.flatMap(t => t.children ?? [])) {
          const attribute = { link_open: 'href', image: 'src' }[token.type]
          if (attribute) token.attrSet(attribute, leadsTo(root, page, token.attrGet(attribute)))
        }
      })
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Queue in a minute', link: '/#a-queue-in-go' },
      { text: 'Recipes', link: '/RECIPES' },
      { text: 'Guarantees', link: '/GUARANTEES' },
      { text: 'API', link: 'https://pkg.go.dev/github.com/millrace/millrace' },
    ],
    sidebar: sidebar(),
    socialLinks: [{ icon: 'github', link: repository }],
    footer: { message: 'Apache License 2.0' },
  },
})
