// Package enginetest is how the engine and its nodes are proved.
//
//   - Server and Node: a node as a test needs it, the rules of localnode.State behind a connection that a seed spoils
//     (Faults) or the test holds in its hand (Hold, Next, Execute, Answer, Repeat, Drop, Cut). It lives in a
//     testing/synctest bubble and opens no socket.
//   - Cluster: the servers, and the nodes by which each replica reaches them.
//   - History: what holders were told, checked against the guarantees of the design.
//   - Contract: the rules of engine/node.go one by one, for every kind of node. ContractOfTime is for those whose
//     clock can be moved, ContractOfBulk for those that are fast.
//   - Differ: a walk of random operations over a node and the rules of localnode.State, which must not differ in anything.
//     More seeds than a plain `go test` has: go test ./engine/enginetest -run WhatTheRulesSay -differ.seeds=100
//
// A schedule reads like its line in the protocol:
//
//	a.Hold("claim")
//	…                        // the engine is asked for a permit
//	claim := a.Next("claim")
//	claim.Execute()          // A executed it, its answer is on the way
//	a.Cut()                  // the answer is lost
//	claim.Repeat()           // A executes it once more
package enginetest
