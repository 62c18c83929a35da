// Package enginetest is how the engine and its nodes are proved.
//
//   - Server and Node: a node as a test needs it, the rules of localnode.State behind a connection that a seed spoils
//     (Faults) or the test holds in its hand (Hold, Next, Execute, Answer, Repeat, Drop, Cut). It lives in a
//     testing/synctest bubble and opens no socket.
//   - Cluster: the servers, and the nodes by which each replica reaches them.
//   - History: what holders were told, checked against the guarantees of the design.
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
