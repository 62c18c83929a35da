package enginetest

import (
	"slices"

	"github.com/permitd/permitd/engine"
)

// viewPage is how many leases View reads at once.
const viewPage = 1000

// header is one that the server accepts now; nil while it is blank.
func (s *Server) header() *engine.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.state.Record()
	if r == nil {
		return nil
	}
	return &engine.Header{Cluster: r.Cluster, Index: r.Index, Known: slices.Clone(r.Known)}
}

// Record reads a lease as the server has it, nil if it has none or does not count. Like every operation it drops what is over.
func (s *Server) Record(semaphore, lease string) *engine.Record {
	return s.Execute(s.header(), 0, engine.Placement{}, &engine.Find{Semaphore: semaphore, Lease: lease}).Record
}

// View reads a semaphore as the server has it: its first page, and all its leases. The page is nil if the server does not
// count. Like every operation it drops what is over, all of it.
func (s *Server) View(semaphore string) (first *engine.ViewPage, leases []engine.Record) {
	for cursor := ""; ; {
		a := s.Execute(s.header(), 0, engine.Placement{}, &engine.View{Semaphore: semaphore, Cursor: cursor, Count: viewPage})
		switch {
		case a.View == nil:
			return nil, nil
		case a.More:
			first, leases, cursor = nil, nil, ""
			continue
		case first == nil:
			first = a.View
		}
		leases = append(leases, a.View.Leases...)
		if cursor = a.View.Next; cursor == "" {
			return first, leases
		}
	}
}

// Records reads a lease on all servers, in their order: what History.Records wants.
func (c *Cluster) Records(semaphore, lease string) []*engine.Record {
	records := make([]*engine.Record, len(c.Servers))
	for i, s := range c.Servers {
		records[i] = s.Record(semaphore, lease)
	}
	return records
}

// Blobs are the sums of the blobs that the server has.
func (s *Server) Blobs() []string {
	return s.Execute(s.header(), 0, engine.Placement{}, &engine.Blobs{}).Names
}
