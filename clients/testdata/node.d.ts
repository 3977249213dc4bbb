// What the programs of tests use of Node.
declare module "node:readline" {
  export function createInterface(options: { input: unknown }): { on(event: "line", f: (line: string) => void): void };
}
declare const process: { argv: string[]; stdin: { destroy(): void } };
