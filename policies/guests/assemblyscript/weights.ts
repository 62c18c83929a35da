// Weight by attribute. The configuration is a table:
//
//   attribute tier
//   gold 1
//   silver 2
//   * 4
//
// A request weighs what it asks for times the number beside its value of the attribute; 0 denies. * is for all other values, and
// for none; without such a line those are as if there were no policy. Lines that begin with # are for people.
import { deny, NO_OPINION } from "./permitd";
import { Table } from "./table";

const table = new Table();

// The mark of the ABI: it has to be exported by the file that is compiled.
export function permitd_abi_v1(): void {}

export function configure(): i32 {
  return table.load((_) => 0);
}

export function evaluate(requested: i64, limit: i64, available: i64, waiting: i64): i64 {
  const factor = table.find();
  if (factor < 0) return NO_OPINION;
  if (factor == 0) return deny("not admitted");
  return factor * requested;
}
