package night_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"schedule-night/internal/night"
	"schedule-night/internal/night/nighttest"
)

// TestPropertyReference: the answer is the reference's, at any instant and on
// both sides of each boundary.
func TestPropertyReference(t *testing.T) {
	z := nighttest.LoadZones(t)
	rapid.Check(t, func(t *rapid.T) {
		c := nighttest.DrawCase(z).Draw(t, "case")
		boundaries := c.Boundaries()
		now := nighttest.UniformTime(t, c.Clock.From, c.Clock.Until)
		c.Compare(t, boundaries, now.In(z.ByName[z.Names[nighttest.Uniform(t, len(z.Names))]]))
		for _, b := range boundaries {
			c.Compare(t, boundaries, b.Add(-1))
			c.Compare(t, boundaries, b)
		}
	})
}

// TestPropertyUnslept: to who does not sleep yet, a schedule with a wake delay says what it
// says without one; but once it says asleep, and from the next boundary on, the delay holds.
func TestPropertyUnslept(t *testing.T) {
	z := nighttest.LoadZones(t)
	rapid.Check(t, func(t *rapid.T) {
		c := nighttest.DrawCase(z).Draw(t, "case")
		for _, b := range append(c.Boundaries(), nighttest.UniformTime(t, c.Clock.From, c.Clock.Until)) {
			for _, now := range []time.Time{b.Add(-1), b, b.Add(1 - time.Duration(nighttest.Uniform(t, int(nighttest.LongestDelay))))} {
				schedule, plain := c.Parsed, c.Parsed
				plain.WakeDelay = 0
				state, err := schedule.At(now)
				want, _ := plain.At(now)
				if err != nil || now.Before(c.Clock.From) {
					continue
				}
				if want.Asleep {
					want = state
				}
				if want.Asleep == c.Delayed(now) && state.Asleep {
					t.Fatalf("%#v\nat %s: asleep %v, by a delay alone: %v", c, now, want.Asleep, c.Delayed(now))
				}
				got := schedule.Unslept(now, state)
				if got != want {
					t.Fatalf("%#v\nat %s: got %+v, want %+v", c, now, got, want)
				}
				if again, err := schedule.At(now); err != nil || again != want {
					t.Fatalf("%#v\nat %s: then it says %+v, error %v; want %+v", c, now, again, err, want)
				}
				if want.Next.IsZero() {
					continue
				}
				after, _ := schedule.At(want.Next)
				if later, _ := c.Parsed.At(want.Next); after != later {
					t.Fatalf("%#v\nat %s: then at %s %+v, want %+v", c, now, want.Next, after, later)
				}
			}
		}
	})
}

// TestPropertyKinds: around a clock change of each kind, the reference agrees
// on every window between the local times that the change makes special.
func TestPropertyKinds(t *testing.T) {
	z := nighttest.LoadZones(t)
	for _, places := range z.Changes {
		p := places[len(places)/2]
		clock := nighttest.WalkClock(z.ByName[p.Zone], p.At.AddDate(0, 0, -8), p.At.AddDate(0, 0, 7))
		before, after := nighttest.Minute(p.At.Add(-time.Minute))+1, nighttest.Minute(p.At)
		minutes := []int{0, 1, nighttest.MinutesPerDay - 2, nighttest.MinutesPerDay - 1}
		for _, m := range []int{before - 1, before, before + 1, (before + after) / 2, after - 1, after, after + 1} {
			minutes = append(minutes, m%nighttest.MinutesPerDay)
		}
		slices.Sort(minutes)
		minutes = slices.Compact(minutes)
		for _, start := range minutes {
			for _, end := range append(minutes, nighttest.MinutesPerDay) {
				if end == start {
					continue
				}
				items := []nighttest.Item{{EveryDate: true, Start: start, End: end}}
				for date := before/nighttest.MinutesPerDay - 2; date <= before/nighttest.MinutesPerDay+1; date++ {
					items = append(items, nighttest.Item{Start: start, End: end, Days: nighttest.Days{Dates: [][2]int{{date, date}}}})
				}
				for _, item := range items {
					// The delay that reaches farthest, and yet not a day: 23:59 and a
					// change of the clock may be more than a date.
					for _, delay := range []time.Duration{0, nighttest.LongestDelay - time.Minute} {
						c := nighttest.NewCase(t, clock, delay, item)
						boundaries := c.Boundaries()
						c.Compare(t, boundaries, clock.From)
						for _, b := range boundaries {
							if b.Sub(p.At).Abs() < 72*time.Hour {
								c.Compare(t, boundaries, b.Add(-1))
								c.Compare(t, boundaries, b)
							}
						}
					}
				}
			}
		}
	}
}

// TestPropertyHorizon: the answer is the reference's over a whole year, and
// what lies beyond 366 days is not told.
func TestPropertyHorizon(t *testing.T) {
	z := nighttest.LoadZones(t)
	clocks := map[*time.Location]*nighttest.Clock{} // walking through a year takes a while
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.Custom(func(t *rapid.T) *nighttest.Case {
			year := nighttest.Among(t, nighttest.Years...)
			d := nighttest.NewDrawer(t, year.At.AddDate(0, 7, 0), 230)
			d.Sparse = nighttest.Among(t, true, false)
			return d.Schedule(z, year.Zone, func(loc *time.Location) *nighttest.Clock {
				if clocks[loc] == nil {
					clocks[loc] = nighttest.WalkClock(loc, year.At.AddDate(0, 0, -8), year.At.AddDate(1, 3, 0))
				}
				return clocks[loc]
			})
		}).Draw(t, "case")
		boundaries := c.Boundaries()
		c.Compare(t, boundaries, nighttest.UniformTime(t, c.Clock.From, c.Clock.Until))
		var late []time.Time
		for _, b := range boundaries {
			if now := b.Add(-nighttest.Horizon); !now.Before(c.Clock.From) {
				late = append(late, now)
			}
		}
		for range min(len(late), 5) {
			now := late[nighttest.Uniform(t, len(late))]
			for _, now := range []time.Time{now.Add(-1), now, now.Add(1)} {
				if !now.Before(c.Clock.From) {
					c.Compare(t, boundaries, now)
				}
			}
		}
	})
}

// TestPropertyNext: the next boundary lies ahead, nothing changes before it,
// and there it does.
func TestPropertyNext(t *testing.T) {
	z := nighttest.LoadZones(t)
	rapid.Check(t, func(t *rapid.T) {
		c := nighttest.DrawCase(z).Draw(t, "case")
		now := nighttest.UniformTime(t, c.Clock.From, c.Clock.Until)
		for range 5 {
			state, err := c.Parsed.At(now)
			until := state.Next
			if until.IsZero() {
				until = now.Add(nighttest.Horizon + 1)
			}
			if !until.After(now) || until.After(now.Add(nighttest.Horizon+1)) {
				t.Fatalf("at %s: next is %s", now, state.Next)
			}
			for _, at := range []time.Time{now.Add(1), nighttest.UniformTime(t, now, until), nighttest.UniformTime(t, now, until), until.Add(-time.Second), until.Add(-1)} {
				if at.Before(now) || !at.Before(until) {
					continue
				}
				got, gotErr := c.Parsed.At(at)
				ok := got.Asleep == state.Asleep && (err == nil) == (gotErr == nil)
				if state.Next.IsZero() {
					ok = ok && (got.Next.IsZero() || !got.Next.Before(until))
				} else {
					ok = ok && got.Next.Equal(until)
				}
				if !ok {
					t.Fatalf("at %s: %+v, error %v; but at %s: %+v, error %v", now, state, err, at, got, gotErr)
				}
			}
			if state.Next.IsZero() {
				break
			}
			now = state.Next
			got, gotErr := c.Parsed.At(now)
			if gotErr != nil || err == nil && got.Asleep == state.Asleep {
				t.Fatalf("the next boundary is %s, but there: %+v, error %v", now, got, gotErr)
			}
		}
	})
}

// TestPropertyStates: to follow a schedule is to ask again at each boundary.
func TestPropertyStates(t *testing.T) {
	z := nighttest.LoadZones(t)
	rapid.Check(t, func(t *rapid.T) {
		c := nighttest.DrawCase(z).Draw(t, "case")
		at := nighttest.UniformTime(t, c.Clock.From, c.Clock.Until)
		to := at.Add(time.Duration(nighttest.Uniform(t, 8*24)) * time.Hour)
		if list := c.Boundaries(); len(list) > 0 && nighttest.Among(t, true, false) {
			to = list[nighttest.Uniform(t, len(list))].Add(nighttest.Among(t, -1, 0, time.Duration(1)))
		}
		over := false
		for got, gotErr := range c.Parsed.States(at, to) {
			if over {
				t.Fatalf("%s is after %s, and yet there is %+v", at, to, got)
			}
			want, err := c.Parsed.At(at)
			if got.Asleep != want.Asleep || got.Override != want.Override || !got.Next.Equal(want.Next) || (gotErr == nil) != (err == nil) {
				t.Fatalf("at %s: got %+v, error %v; want %+v, error %v", at, got, gotErr, want, err)
			}
			at = got.Next
			over = at.IsZero() || at.After(to)
		}
		if !over {
			t.Fatalf("the states end at %s, before %s", at, to)
		}
	})
}

// TestPropertyNights: a plain daily window has its nights once each, over the
// weeks around a clock change.
func TestPropertyNights(t *testing.T) {
	z := nighttest.LoadZones(t)
	rapid.Check(t, func(t *rapid.T) {
		p := nighttest.DrawPlace(t, z)
		// Neither nights nor days so short that a clock change can swallow them.
		start := nighttest.NewDrawer(t, p.At, 0).Clock(nighttest.MinutesPerDay - 1)
		end := (start + 4*60 + nighttest.Uniform(t, 16*60)) % nighttest.MinutesPerDay
		if nighttest.Among(t, false, true) {
			start, end = end, start
		}
		if end == 0 && nighttest.Among(t, false, true) {
			end = nighttest.MinutesPerDay
		}
		before, after := 4+nighttest.Uniform(t, 20), 4+nighttest.Uniform(t, 20)
		nighttest.CheckNights(t, z.ByName[p.Zone], start, end, p.At.AddDate(0, 0, -before), p.At.AddDate(0, 0, after))
	})
}

// TestPropertyEveryChange: no clock change of any zone doubles a night or loses
// one.
func TestPropertyEveryChange(t *testing.T) {
	z := nighttest.LoadZones(t)
	n := 0
	for _, places := range z.Changes {
		for _, p := range places {
			before, after := nighttest.Minute(p.At.Add(-time.Minute))+1, nighttest.Minute(p.At)
			minutes := []int{before, after, before - 1, after - 1, (before + after) / 2, 0, before + 1, after + 1}
			start := minutes[n%len(minutes)] % nighttest.MinutesPerDay
			end := (start + []int{4, 10, 20}[n%3]*60) % nighttest.MinutesPerDay
			if n/len(minutes)%2 == 1 {
				start, end = end, start
			}
			n++
			nighttest.CheckNights(t, z.ByName[p.Zone], start, end, p.At.Add(-72*time.Hour), p.At.Add(72*time.Hour))
		}
	}
}

// TestPropertyParse: what is parsed is what the text says, and prints as
// something that means the same.
func TestPropertyParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := nighttest.NewDrawer(t, nighttest.UniformTime(t, nighttest.Begin, nighttest.End), nighttest.Among(t, 3, 400))
		dates := []int{nighttest.FirstDate, nighttest.LastDate}
		for date := d.Date - 10; date <= d.Date+10; date++ {
			dates = append(dates, date, d.Date-d.Spread+nighttest.Uniform(t, 2*d.Spread+1))
		}

		items, tokens := d.Window()
		text := d.Text(tokens)
		w, err := night.ParseWindow(text)
		if err != nil || w.Len() != len(items) {
			t.Fatalf("window %q: got %d items, error %v; want %d items", text, w.Len(), err, len(items))
		}
		for i := range items {
			want, got := &items[i], w.Item(i)
			if int(got.Start) != want.Start || int(got.End) != want.End {
				t.Fatalf("window %q: item %d is %+v, want %+v", text, i, got, want)
			}
			for _, n := range dates {
				if got.Days.Include(night.Date(n)) != want.Has(n) {
					t.Fatalf("window %q: item %d on %s: got %v", text, i, nighttest.DateText(n), !want.Has(n))
				}
			}
		}
		if again, err := night.ParseWindow(w.String()); err != nil || !reflect.DeepEqual(again, w) {
			t.Fatalf("window %q prints as %q, which reads as %+v, error %v; want %+v", text, w.String(), again, err, w)
		}

		set, dayTokens := d.Days()
		dayText := d.Text(dayTokens)
		days, err := night.ParseDays(dayText)
		if err != nil {
			t.Fatalf("days %q: %v", dayText, err)
		}
		for _, n := range dates {
			if days.Include(night.Date(n)) != set.Has(n) {
				t.Fatalf("days %q on %s: got %v", dayText, nighttest.DateText(n), !set.Has(n))
			}
		}
		if again, err := night.ParseDays(days.String()); err != nil || !reflect.DeepEqual(again, days) {
			t.Fatalf("days %q print as %q, which reads as %+v, error %v; want %+v", dayText, days.String(), again, err, days)
		}

		space := nighttest.Among(t, " ", "\t", "\n", "\r")
		for _, wrong := range []string{space + text, text + space, text + ",", "," + text, text + "," + dayText} {
			if _, err := night.ParseWindow(wrong); err == nil {
				t.Fatalf("window %q was accepted", wrong)
			}
		}
		for _, wrong := range []string{space + dayText, dayText + space, dayText + ",", "," + dayText, dayText + "," + text} {
			if _, err := night.ParseDays(wrong); err == nil {
				t.Fatalf("days %q were accepted", wrong)
			}
		}
	})
}

// TestPropertyZones: every zone's name is a legal annotation.
func TestPropertyZones(t *testing.T) {
	for _, name := range nighttest.LoadZones(t).Names {
		if loc, err := night.ParseLocation(name); err != nil || loc.String() != name {
			t.Errorf("zone %q: got %v, error %v", name, loc, err)
		}
	}
}
