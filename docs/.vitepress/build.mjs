// Builds the site of the documentation into build/site/public: `make site`. The pages are those of docs, and
// the README is the first one. Readers that are programs find llms.txt there, and each page as Markdown.
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vitepress'
import { repository } from './links.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const work = join(root, 'build/site')
const source = join(work, 'docs')

// VitePress takes its pages from one folder, and README.md is in another one.
rmSync(source, { recursive: true, force: true })
cpSync(join(root, 'docs'), source, { recursive: true })
cpSync(join(root, 'README.md'), join(source, 'index.md'))
process.env.MILLRACE_SITE_ROOT = root
await build(source, { outDir: join(work, 'public') })

const published = join(work, 'public')
for (const folder of ['.', 'decisions']) {
  mkdirSync(join(published, folder), { recursive: true })
  for (const page of readdirSync(join(root, 'docs', folder)).filter(name => name.endsWith('.md'))) {
    cpSync(join(root, 'docs', folder, page), join(published, folder, page))
  }
}
for (const page of ['README.md', 'AGENTS.md']) {
  cpSync(join(root, page), join(published, page))
}
const index = readFileSync(join(root, 'llms.txt'), 'utf8').replace(/\]\(([^)]+)\)/g, (_, target) => {
  if (/^docs\/.*\.md$/.test(target)) return `](${target.slice('docs/'.length)})`
  return ['README.md', 'AGENTS.md'].includes(target) ? `](${target})` : `](${repository}/tree/main/${target})`
})
writeFileSync(join(published, 'llms.txt'), index)
