// Where links of the documentation lead on the site: to its pages, and else to the repository.
import { existsSync, statSync } from 'node:fs'
import { join, posix } from 'node:path'

export const repository = 'https://github.com/millrace/millrace'

// leadsTo returns where a link of a page leads. Pages are named by their path in the repository.
export function leadsTo(root, page, link) {
  if (/^[a-z]+:/.test(link) || link.startsWith('#')) return link
  const [path, anchor] = link.split('#')
  const target = posix.normalize(posix.join(posix.dirname(page), path))
  const suffix = anchor ? `#${anchor}` : ''
  if (target === 'README.md') return `/index.md${suffix}`
  if (/^docs\/(decisions\/)?[^/]+\.md$/.test(target) || /^docs\/pictures\/[^/]+$/.test(target)) {
    return `/${target.slice('docs/'.length)}${suffix}`
  }
  if (!existsSync(join(root, target))) throw new Error(`${page}: ${link} leads nowhere`)
  const kind = statSync(join(root, target)).isDirectory() ? 'tree' : 'blob'
  return `${repository}/${kind}/main/${target.replace(/\/$/, '')}${suffix}`
}

// slug is the anchor of a heading, as GitHub makes it: the pages are read there, too.
export function slug(heading) {
  return heading.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')
}
