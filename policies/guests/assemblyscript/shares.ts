// Fair share per tenant. The configuration is a table of shares in percent, and what happens beyond them:
//
//   attribute tenant
//   acme 50
//   * 10
//   over deny
//
// A tenant that asks for more than its share of what is available is denied, or with `over priority -20` goes later. * is for all
// other tenants, and for requests of none; without such a line those have no limit. Lines that begin with # are for people.
import { deny, NO_OPINION, setPriority } from "./permitd";
import { number, Table } from "./table";

const table = new Table();
let priority: i32 = 0; // 0: deny

// The mark of the ABI: it has to be exported by the file that is compiled.
export function permitd_abi_v1(): void {}

// Reads over deny, or over priority -20.
function over(words: string[]): i32 {
  if (words[0] != "over") return 0;
  if (words.length == 2 && words[1] == "deny") return 1;
  if (words.length != 3 || words[1] != "priority" || !words[2].startsWith("-")) return -1;
  const n = number(words[2].substring(1));
  if (n < 1 || n > 100) return -1;
  priority = -(n as i32);
  return 1;
}

export function configure(): i32 {
  return table.load(over);
}

export function evaluate(requested: i64, limit: i64, available: i64, waiting: i64): i64 {
  const share = table.find();
  if (share < 0 || 100 * requested <= share * available) return NO_OPINION;
  if (priority == 0) return deny("more than its share of what is available");
  setPriority(priority);
  return NO_OPINION;
}
