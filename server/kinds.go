package server

import "net/http"

// kind is what all problems of a kind share.
type kind struct {
	name   string
	status int
	title  string
}

// The kinds of problems. A client may rely on the names.
var (
	kindBadRequest          = kind{"bad_request", http.StatusBadRequest, "The request cannot be understood"}
	kindUnauthenticated     = kind{"unauthenticated", http.StatusUnauthorized, "A token is needed"}
	kindForbidden           = kind{"forbidden", http.StatusForbidden, "The token does not allow this"}
	kindOriginRefused       = kind{"origin_refused", http.StatusForbidden, "Pages of this origin may not ask"}
	kindNotFound            = kind{"not_found", http.StatusNotFound, "There is nothing here"}
	kindUnknownSemaphore    = kind{"unknown_semaphore", http.StatusNotFound, "There is no such semaphore"}
	kindUnknownLease        = kind{"unknown_lease", http.StatusNotFound, "There is no such lease"}
	kindMethodNotAllowed    = kind{"method_not_allowed", http.StatusMethodNotAllowed, "The method does not fit the path"}
	kindDefinitionConflict  = kind{"definition_conflict", http.StatusConflict, "The semaphore was created by another definition"}
	kindSuperseded          = kind{"superseded", http.StatusConflict, "The same request was made again"}
	kindInProgress          = kind{"in_progress", http.StatusConflict, "The same request is under way elsewhere"}
	kindSemaphoreInUse      = kind{"semaphore_in_use", http.StatusConflict, "The semaphore has holders"}
	kindNotNeeded           = kind{"not_needed", http.StatusConflict, "The nodes need no such help"}
	kindLeaseExpired        = kind{"lease_expired", http.StatusGone, "The lease has expired"}
	kindLeaseReleased       = kind{"lease_released", http.StatusGone, "The lease was released"}
	kindLeaseBroken         = kind{"lease_broken", http.StatusGone, "The lease was broken by an operator"}
	kindRevMismatch         = kind{"rev_mismatch", http.StatusPreconditionFailed, "The semaphore is not as the condition says"}
	kindTooLarge            = kind{"too_large", http.StatusRequestEntityTooLarge, "The request is too large"}
	kindUnsupportedEncoding = kind{"unsupported_encoding", http.StatusUnsupportedMediaType, "Bodies are not compressed here"}
	kindWrongHost           = kind{"wrong_host", http.StatusMisdirectedRequest, "This server does not go by this name"}
	kindInvalidDefinition   = kind{"invalid_definition", http.StatusUnprocessableEntity, "The definition cannot be"}
	kindWeightExceedsLimit  = kind{"weight_exceeds_limit", http.StatusUnprocessableEntity, "More permits than the semaphore has"}
	kindKeyReused           = kind{"key_reused", http.StatusUnprocessableEntity, "The key was used for another request"}
	kindBadTicket           = kind{"bad_ticket", http.StatusUnprocessableEntity, "The ticket is not of this request"}
	kindUnknownPolicy       = kind{"unknown_policy", http.StatusUnprocessableEntity, "There is no such policy"}
	kindInvalidModule       = kind{"invalid_module", http.StatusUnprocessableEntity, "The module cannot be a policy"}
	kindDeniedByPolicy      = kind{"denied_by_policy", http.StatusForbidden, "The semaphore's policy denies it"}
	kindPolicyFault         = kind{"policy_fault", http.StatusForbidden, "The semaphore's policy gave no answer"}
	kindPolicyInUse         = kind{"policy_in_use", http.StatusConflict, "Semaphores are bound to the policy"}
	kindTooManyPolicies     = kind{"too_many_policies", http.StatusTooManyRequests, "There are too many policies"}
	kindPolicyUnavailable   = kind{"policy_unavailable", http.StatusServiceUnavailable, "The semaphore's policy is not to be had"}
	kindNoPermit            = kind{"no_permit", http.StatusLocked, "No permit was free in time"}
	kindClientLimit         = kind{"client_limit", http.StatusTooManyRequests, "This client has too much under way"}
	kindTooManyWaiters      = kind{"too_many_waiters", http.StatusTooManyRequests, "Too many wait already"}
	kindTooManySemaphores   = kind{"too_many_semaphores", http.StatusTooManyRequests, "Too many semaphores were created on use"}
	kindInternal            = kind{"internal", http.StatusInternalServerError, "The server has failed"}
	kindQuorumUnavailable   = kind{"quorum_unavailable", http.StatusServiceUnavailable, "Too few nodes answer"}
	kindDraining            = kind{"draining", http.StatusServiceUnavailable, "The server is shutting down"}
	kindTooManyConnections  = kind{"too_many_connections", http.StatusServiceUnavailable, "Too many connections are open"}
)

// kinds lists them all, for the page of problems.
var kinds = []kind{
	kindBadRequest,
	kindUnauthenticated,
	kindForbidden,
	kindOriginRefused,
	kindNotFound,
	kindUnknownSemaphore,
	kindUnknownLease,
	kindMethodNotAllowed,
	kindDefinitionConflict,
	kindSuperseded,
	kindInProgress,
	kindSemaphoreInUse,
	kindNotNeeded,
	kindLeaseExpired,
	kindLeaseReleased,
	kindLeaseBroken,
	kindRevMismatch,
	kindTooLarge,
	kindUnsupportedEncoding,
	kindWrongHost,
	kindInvalidDefinition,
	kindWeightExceedsLimit,
	kindKeyReused,
	kindBadTicket,
	kindUnknownPolicy,
	kindInvalidModule,
	kindDeniedByPolicy,
	kindPolicyFault,
	kindPolicyInUse,
	kindTooManyPolicies,
	kindPolicyUnavailable,
	kindNoPermit,
	kindClientLimit,
	kindTooManyWaiters,
	kindTooManySemaphores,
	kindInternal,
	kindQuorumUnavailable,
	kindDraining,
	kindTooManyConnections,
}
