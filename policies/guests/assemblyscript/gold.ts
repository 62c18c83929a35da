// Gold clients go first at face value. Others are denied when less than a quarter is free, else weigh double and get 5 s.
import { attribute, deny, setPriority, setTTL } from "./permitd";

// The mark of the ABI: it has to be exported by the file that is compiled.
export function permitd_abi_v1(): void {}

export function evaluate(requested: i64, limit: i64, available: i64, waiting: i64): i64 {
  if (attribute("tier") == "gold") {
    setPriority(10);
    return requested;
  }
  if (4 * available < limit) return deny("less than a quarter is free");
  setTTL(5000);
  return 2 * requested;
}
