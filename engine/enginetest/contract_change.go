package enginetest

import (
	"github.com/permitd/permitd/engine"
)

// changeRules are about what every replica is told: that a definition has changed.
var changeRules = []rule{
	{"an accept of another ballot than was accepted before tells every replica of it", func(c *contract) {
		c.form()
		c.listening()
		for _, name := range []string{sem, "a:{b} \x00é", "*"} {
			ballot := c.ballot()
			for _, value := range []engine.Value{{Limit: 1}, {Limit: 1}, {Limit: 5, Paused: true}, {Deleted: true}, {Limit: 1}} {
				c.write(engine.RegisterSemaphore, name, value)
				c.changed(name)
			}
			c.expect(engine.SaysNo, &engine.Accept{Kind: engine.RegisterSemaphore, Name: name, Ballot: ballot})
			c.noChange()
		}
	}},
	{"an accept of the ballot that was accepted before tells nobody", func(c *contract) {
		c.form()
		c.listening()
		accept := &engine.Accept{Kind: engine.RegisterSemaphore, Name: sem, Ballot: c.ballot(), Value: engine.Value{Limit: 1}}
		c.expect(engine.SaysAccepted, accept)
		c.changed(sem)
		c.expect(engine.SaysAccepted, accept)
		c.noChange()
	}},
	{"a change of a register of the cluster names no semaphore", func(c *contract) {
		c.form()
		c.listening()
		accept := &engine.Accept{Kind: engine.RegisterCluster, Name: sem, Ballot: c.ballot(), Value: engine.Value{Data: "x"}}
		c.expect(engine.SaysAccepted, accept)
		c.changed("")
		c.expect(engine.SaysAccepted, accept)
		c.noChange()
	}},
	{"a promise and a drop tell nobody", func(c *contract) {
		c.form()
		c.listening()
		ballot := c.define(engine.Value{Deleted: true})
		c.changed(sem)
		c.expect(engine.SaysDone, &engine.Drop{Kind: engine.RegisterSemaphore, Name: sem, Ballot: ballot})
		c.expect(engine.SaysPromised, &engine.Prepare{Kind: engine.RegisterSemaphore, Name: sem, Ballot: c.ballot()})
		c.noChange()
	}},
	{"whoever waits there is woken besides", func(c *contract) {
		place := c.full(2, 1)
		c.changed(sem)
		c.define(engine.Value{Limit: 3})
		c.wokenWith(place.Order, 2, 1)
		c.changed(sem)
	}},
}
