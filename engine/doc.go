// Package engine leases permits of semaphores that live on N independent nodes, of which any minority may fail.
//
// # What it promises
//
//  1. Never more than a semaphore's limit of permits in valid leases.
//  2. A grant that was told is held on a quorum; a release that was acknowledged is final.
//  3. Whoever was refused, cancelled, timed out or left leaves nothing behind, at worst until its TTL where a node was away.
//  4. Fences grow: for any two grants one after the other, and on every slot.
//  5. First come, first served within a priority, up to one claim round when requests of two replicas cross.
//
// # How
//
// A semaphore's permits are numbered slots, and a grant is one majority lock a slot: the same slots for one lease on Q =
// N/2+1 nodes. Two majorities share a node, and a node gives a slot to one lease at a time.
//
//	Ask ──▶ semaphore ──▶ line ──▶ attempt ──▶ peer ──▶ Node        one a node, all at once
//	            ▲                     ▲           │
//	            │                     └── ballot ─┘                  quorum.Tally: verdict at the Q-th
//	            └─ lease ◀── grant ◀──────┘
//	                 │  keeper: renews, or tells that it is lost
//	                 └─ release ──▶ every node, until it has heard it
//
// A request that is let in claims at once unless somebody of this replica waits before it. The claim goes to every node
// (claim.go of a node says what it does there), and the ballots are tallied as they come (attempt.go, verdict.go):
//
//   - Q agree on slots, fence and definition: granted (lease.go). Nodes whose ballot differs get a mend.
//   - Q said yes but not alike: mended onto what most agree on, with the largest fence; then given back and tried anew.
//   - too many said no: what was granted is given back, the request stands in line.
//   - fewer than Q answered: given back; ErrQuorumUnavailable.
//
// The line is FIFO with weights in each replica (line.go) and one place a replica on the nodes: its oldest waiter. Whatever
// frees permits at a node wakes the replica of the oldest place with one message. A replica counts such messages and claims
// at the Q-th; a release here and a claim of the head here share a pipeline and need none. A head that nobody wakes claims again
// when it was told that something ends, and every half second.
//
// A lease that is released or broken, or loses a part, through a replica that does not have it may be kept by another: each node that executes
// such a release tells all replicas, and one that has the lease looks what became of it (renew.go). Such a message may be
// lost: then the next renewal tells.
//
// # Invariants
//
//   - What an attempt leaves on a node carries its nonce (Claim.By); only that is ever given back.
//   - All requests of a semaphore go out while its mutex is held, so every node hears them in one order.
//   - What a request states about this replica's place is filled in when it is written (Call.Fill).
//   - validity <= min(t0 + ttl, the Q-th largest end) - (ttl/100 + 25 ms + the widest clock interval): quorum.Validity.
//   - A kept lease is told lost before its validity ends; nobody else can have its slots before.
//   - A release is owed to each node until the node has acknowledged it or the lease's time is over (release.go, peer.go).
//   - Definitions and the cluster secret are CASPaxos registers on the same nodes (register.go); a ballot names the
//     definition it was cast under, and ballots under different ones are never added up. So are values that callers share (value.go).
//   - A blob is named by its SHA-256 and lies on a quorum, beside what eras are about (blob.go); whoever uses it mends it.
//   - A request is weighed once, when it is found to be new; what was said goes with its place, ticket and lease. Made
//     again while it is weighed, it takes what the first is told (weigh.go).
//
// # Which nodes count
//
// A node votes if its record names this cluster, its server's run_id is the record's, its state is ok and its clock did not
// jump (cluster.go). Nodes of which none was ever ok are formed into a cluster when all answer (forming.go). What else a node may
// be, and what is done about it, is decided at each look by pure functions of what the nodes say (era_standing.go, era_plan.go):
// one that is out is reseeded from a quorum of the others, in a new era (reseed.go); when fewer than a quorum are ok, all that
// they remember is put together (coldstart.go); what only a person may decide waits for one (recover.go).
//
// # Lock order
//
// semaphore.mu, then one of keeper.mu, peer.mu, Engine.mu, Engine.semMu, a node's own. Events are told with semaphore.mu held.
// Answers come from goroutines of the nodes, without locks.
//
// # Rules and the tests that protect them
//
// TestSchedule… in schedule_*_test.go: each is a schedule of messages that breaks a protocol without the rule it is named
// after. TestSimulation: random faults, guarantees 1-5 at every step. TestMutation: the mechanism with a rule taken out, which
// the simulation must catch. Contract and differential tests of the nodes: package enginetest.
//
// TestMutants (`make mutate`) takes each of these rules out of the source, and the test beside it must fail. Those of the nodes
// are taken out of the Lua of redisnode, too, where its TestItKeepsTheContractOnMiniredis must fail.
//
// Never more than the limit:
//
//	a grant is the same slots on Q nodes                       quorum TestTallyScripts
//	a quorum is of all configured nodes                        quorum TestAQuorumIsOfAllConfiguredNodesNotOfThoseThatAnswer
//	ballots under two definitions are never added up           TestScheduleHalfDoneGrowOverShrink
//	what was voted for under one definition is granted so      TestScheduleMendAcrossTwoDefinitionsOfVotesUnderOne
//	a mend gives way to whoever has the slot                   TestScheduleCrossedBallots
//	a late ballot that differs is mended                       TestALateBallotThatDiffersIsMended
//	a validity ends before the lease does on the nodes         TestNoValidityIsLongerThanAQuorumHolds
//	a validity is shorter by what is not known of the clocks   quorum TestValidityIsShortOfWhatAQuorumHolds
//	a validity rests on the Q-th largest end                   quorum TestValidityIsShortOfWhatAQuorumHolds
//	a clock that jumps is not trusted                          TestANodeWhoseClockJumpsIsSuspendedAndComesBack
//	a renewal is void once its validity has ended              TestScheduleRenewAfterValidity
//	a renewal does not undo a part that was given back         TestSchedulePartialReleaseAndLateRenew
//	a renewal takes no slot that the record lacks              TestScheduleRenewMovesOntoAMend
//	a copy is no vote                                          localnode TestACopyBeyondTheBoundIsNotGranted
//	a copy is not attached                                     TestScheduleAttachOnACopy
//	a ballot is promised                                       enginetest TestStateKeepsTheContract
//	a half-done change is completed by whoever reads it        TestScheduleTwoHalfDoneGrows
//	a slot in use beyond the limit bounds what is granted      TestWhileASlotBeyondTheLimitIsInUseGrantsStayBelowTheBound
//	the bound of a shrink counts what is used beyond the limit quorum TestShrinkBoundIsTheLargestThatKeepsTheLimit
//	a bound is for the definition it was read under            TestScheduleShrinkBoundUnderTwoBallots
//	nodes compare the bound's definition with theirs           enginetest TestStateKeepsTheContract
//	a deletion is dropped once all nodes have it               TestScheduleDeletedRegisterReturns
//	what is held is not dropped                                TestScheduleIdleSweepAgainstAGrant
//	what is released early cools                               TestMinHoldKeepsPermitsFromComingBackEarly
//
// What was told is held, what was acknowledged is final:
//
//	a give-back names its attempt                              TestScheduleRetriedGiveBackOfAnotherAttempt
//	a tombstone bars renewals                                  enginetest TestStateKeepsTheContract
//	a tombstone lives as long as the lease could               TestScheduleRenewalAfterTheTombstone
//	a renewal never shortens                                   TestScheduleRenewShorterTTL
//	a release by a smaller owner ends nothing                  enginetest TestStateKeepsTheContract
//	a release is owed until it is heard                        TestANodeThatIsBackHearsWhatItMissed
//
// Nothing is left behind:
//
//	a release leaves a tombstone of what was never seen        TestScheduleForeignReleaseBeforeClaim
//	a tombstone bars claims                                    TestScheduleClaimAfterReleaseOnAClosedConnection
//	a tombstone bars mends                                     TestScheduleStaleMendAfterReconnect
//	what comes after 5 s is not executed                       TestScheduleClaimResentAfterItsAttemptEnded
//	what comes more than 50 ms early is not executed           enginetest TestStateKeepsTheContract
//	a give-back goes to the silent, too                        TestWhatWasGrantedAndNotHeardIsGivenBack
//	a late yes is given back                                   TestScheduleGiveBackAfterANewerClaim
//	a refused mend of a new lease drops its record             enginetest TestStateKeepsTheContract
//	a mend that is refused is made again                       TestScheduleMendMeetsAPassingBallot
//	a claim lives for a minute at most                         TestATTLOverAMinuteIsConfirmedBeforeItIsTold
//
// Fences grow:
//
//	a mend that moves a lease raises its fence                 TestScheduleFenceAfterAMove
//	a copy that is claimed gets a new fence                    TestScheduleCopiedBallotRaisesFence
//	the fence of what is dropped goes into the floor           TestScheduleFenceAfterIdleDrop
//	ballots of what comes back are larger                      TestWhatWasSentBeforeADeletionDoesNothingToWhatCameAfter
//
// What a node said before it forgot does not count, and it comes back with what the others remember:
//
//	a node is asked by whoever knows its era                         enginetest TestStateKeepsTheContract
//	whoever counts on an era that is over is refused                 TestScheduleBallotBeforeAmnesiaThenClaimAfterReseed
//	ballots of an era that is over are thrown away                   TestScheduleBallotBeforeAmnesiaThenClaimAfterReseed
//	renewals of an era that is over are thrown away                  TestScheduleRenewalBeforeAmnesia
//	acknowledgements of an era that is over are thrown away          TestScheduleReleaseAckOfOldEra
//	an answer of an era that is over is none                         TestScheduleAcceptBeforeAmnesia
//	what a node accepted in an era that is over is thrown away       TestScheduleAcceptBeforeAmnesia
//	promises of an era that is over are thrown away                  TestSchedulePromiseBeforeAmnesia
//	the sources are marked before they are read                      TestScheduleBallotBeforeAmnesiaThenClaimAfterReseed
//	a refused mark is made again with a larger era                   TestAMarkThatIsRefusedIsMadeAgainWithALargerEra
//	an era is marked by one token                                    enginetest TestStateKeepsTheContract
//	a source of an older era is void                                 TestScheduleReplacedInstanceAsSource
//	the larger token wins                                            enginetest TestStateKeepsTheContract
//	who freezes names the token that was seen                        enginetest TestStateKeepsTheContract
//	nothing is loaded into a server that was started anew            enginetest TestStateKeepsTheContract
//	no page of a memory is missing                                   enginetest TestStateKeepsTheContract
//	what is loaded lies beside what the node has                     TestScheduleCopiedBallotIsNoVote
//	fences go on above a node's time                                 enginetest TestStateKeepsTheContract
//	a merge takes the slots of the largest ver                       TestAMergeTakesTheSlotsOfTheLargestVer
//	a merge takes a renewed record before one of the first minute    TestScheduleMergeFirstAndRenewed
//	a tombstone bars an attempt in a merge                           TestScheduleAttemptTombstoneInReseed
//	what a merge removes cools                                       TestScheduleMergeReleaseCools
//	what cools is copied                                             TestScheduleCoolingAndReseed
//	the last fence is copied                                         TestScheduleReseedWithoutFenceCounter
//	promises are copied                                              TestScheduleStaleMemoryWithALargerBallot
//	a cold start needs a quorum of memories, or an operator          TestScheduleOperatorVerdictFreezesNothing
//	a memory that was replaced is not counted                        TestAMemoryThatWasReplacedDoesNotCount
//	all have loaded before any commits                               TestScheduleCommitOneThenTailLost
//	a cold start begins an era above all that are known              TestScheduleCommitOneThenTailLost
//	nothing is granted in the wait                                   TestScheduleMinorityRecordCopiedThenClaimedInTheWait
//	a cold start waits out the longest TTL that the nodes have seen  TestScheduleMinorityRecordCopiedThenClaimedInTheWait
//	a cold start waits out the longest TTL that the replica has seen TestScheduleColdStartWaitsAsLongAsTheReplicaHasSeen
//	a cold start waits also on what all have forgotten               TestScheduleColdStartWaitsOnSemaphoresThatAreForgotten
//	the wait after a cold start is copied                            TestScheduleWaitSurvivesAReseed
//	the wait on what all have forgotten is copied, too               TestAWaitOnWhatIsForgottenSurvivesReseeds
//	memories are counted again once all are frozen                   TestMemoriesThatAreLostBeforeTheFreezeDoNotCount
//	nobody waits on durable nodes                                    TestScheduleComposeRestart
//	a clock that was set back makes no lease longer                  TestScheduleClockSetBackBeforeAPowerCut
//	all blank nodes are formed when the longest lease is over        TestScheduleAllBlankWhileAReplicaRemembers
//	how long leases may last is told to all replicas                 TestScheduleAllBlankWhileAReplicaRemembers
//	a node that was replaced is not taken back by itself             TestScheduleTwoInstancesOfOneNode
//	a copy of a node's memory is another node                        TestACopyOfANodeReplacesItOnce
//	an era that was only marked replaces nobody                      TestScheduleAbandonedMarkIsNotReplaced
//	of two with one index the overtaken takes another                TestAnOvertakenNodeTakesTheFreeIndex
//	the eras of an index are not those of another                    TestAnOvertakenNodeTakesTheFreeIndex
//	a validity is short of the interval of a clock                   TestScheduleWideClockIntervalJump
//	a look outside of the interval does not move it                  TestScheduleSmallClockStepsAddUp
//	nodes keep how their clocks stand to each other                  TestScheduleClockJumpBeforeAReplicaStarts
//	how clocks stood is not told later                               TestANoteThatRunsLateChangesNothing
//	a node whose clock jumped is told so                             TestScheduleClockJumpBeforeAReplicaStarts
//	a server that was started anew is out                            redisnode TestAProbeSaysWhyANodeDoesNotCount
//	a server that was another's replica is out                       redisnode TestAProbeSaysWhyANodeDoesNotCount
//
// First come, first served, and nobody waits for what is free:
//
//	a refused claim states its place                           TestScheduleTwoClaimsOfOneReplica
//	a granted claim leaves the next place, or none             enginetest TestStateKeepsTheContract
//	a line replaces the place it was told, no newer one        TestScheduleLineAfterANewerPlace
//	a line is sent after the verdict                           TestScheduleStalePlaceAfterGrant
//	who tries anew keeps its place meanwhile                   TestScheduleRefusedMendWakesItsOwn
//	who is mended keeps its place meanwhile                    TestScheduleRefusedMendWakesItsOwn
//	a claim stays behind those before it                       enginetest TestStateKeepsTheContract
//	room beside all who wait is free to take                   TestScheduleFalseBehindWithPermitsFree
//	nobody claims while others wait before it here             TestATryTakesWhatIsFreeAndNeverOvertakesAWaiter
//	a place that was woken in vain is passed over              TestScheduleDeadReplicaAtTheHeadAmongTraffic
//	a place heavier than the limit holds nobody up             enginetest TestStateKeepsTheContract
//	a waiter heavier than a shrunken limit is refused          TestScheduleHeavierThanAShrunkenLimit
//	what frees room wakes the head                             TestAHandOverBetweenReplicasTakesTwoRoundTrips
//	a raised limit wakes the head                              TestScheduleLimitRaisedWakes
//	a claim waits for the Q-th wake                            TestAClaimWaitsForTheQthWake
//	a give-back does not wake the waiter it is of              enginetest TestStateKeepsTheContract
//	a yes that is given back counts as that node's wake        TestScheduleYesGivenBackWhileANodeIsDown
//	a head that nobody wakes claims again                      TestAnExpiryWithNoTrafficServesTheHead
//	a node under an older definition is told                   TestFoundANodeThatMissedAChangeIsTold
//	a give-back never cools                                    TestWhatNobodyGotDoesNotCool
package engine
