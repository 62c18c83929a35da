package server

import (
	"testing"
)

func TestAHolderHearsThatItsLeaseWasReleasedByItsCapability(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := s.open(t)
	w.send(`{"type":"acquire","ref":"1","semaphore":"db","create":{"limit":2}}`)
	first := w.expect("granted")
	if _, err := s.client.Release(t.Context(), "db", first["lease"].(string), 0); err != nil {
		t.Fatal(err)
	}
	if lost := w.expect("lost"); lost["id"] != first["id"] || lost["reason"] != "released" {
		t.Errorf("it heard %v", lost)
	}
	w.send(`{"type":"acquire","ref":"2","semaphore":"db"}`)
	second := w.expect("granted")
	w.send(`{"type":"release","ref":"3","lease":"%s"}`, second["lease"])
	if released := w.expect("released"); released["id"] != second["id"] { // and nothing before
		t.Errorf("it heard %v", released)
	}
}
