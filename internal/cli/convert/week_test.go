package convert

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"schedule-night/internal/night"
)

// These tests need no more of this package than week.go: make fuzz builds the two files
// alone, without client-go.

// TestSleepWeekdays is about what kube-green takes for days, and what it does not.
func TestSleepWeekdays(t *testing.T) {
	long := strings.Repeat("1,", 1<<16)
	for text, want := range map[string][]int{ // Sunday is 0
		"*": {0, 1, 2, 3, 4, 5, 6}, "?": {0, 1, 2, 3, 4, 5, 6}, "0-6": {0, 1, 2, 3, 4, 5, 6}, "sun-SAT": {0, 1, 2, 3, 4, 5, 6},
		"1-5": {1, 2, 3, 4, 5}, "Mon-Fri": {1, 2, 3, 4, 5}, "mon-5": {1, 2, 3, 4, 5}, " " + "1-5" + "\t": {1, 2, 3, 4, 5},
		"MON,WED": {1, 3}, "Sat,Sun": {0, 6}, "6,0": {0, 6}, "3": {3}, "0": {0}, "1-3,5": {1, 2, 3, 5},
		"*/2": {0, 2, 4, 6}, "1-5/2": {1, 3, 5}, "Mon-Fri/2": {1, 3, 5}, "2/2": {2, 4, 6}, "Tue/2": {2, 4, 6}, "3/9": {3}, "*/1": {0, 1, 2, 3, 4, 5, 6},
		// Odd, but this is how it reads them.
		"1,,5,": {1, 5}, "+1": {1}, "0001": {1}, "*-9": {0, 1, 2, 3, 4, 5, 6}, long: {1},
	} {
		asleep, err := sleepWeek(text, "12:00", "13:00")
		if err != nil {
			t.Errorf("%.60q: %v", text, err)
			continue
		}
		var got []int
		for day := range 7 {
			if asleep[(day+6)%7*night.MinutesPerDay+12*60] {
				got = append(got, day)
			}
		}
		if !slices.Equal(got, want) || asleep.count() != 60*len(want) {
			t.Errorf("%.60q: days %v, want %v; %d minutes", text, got, want, asleep.count())
		}
	}
	for _, text := range []string{
		"", " ", ",", ",,", "7", "1-7", "0-7", "6-7", "5-1", "Fri-Mon", "8", "-1", "*/0", "*/", "/", "/2", "*/-1", "*/x", "1-", "-5", "-", "1-2-3", "1/2/3",
		"1 5", "Monday", "Mo", "Fry", "1.5", "0x1", "1;5", "١", "L", "5#2", "**", "*5",
		"TZ=0", "TZ=", "TZ=TZ=TZ=", "CRON_TZ=UTC", "CRON_TZ=UTC 1", "TZ=UTC *", "@", "@every", "@every 1h", "@every 1ns", "@daily", " @daily", "@reboot",
		"1\x00", "\x00", "\xff", "1\n2", "x\n$(exit 1)", "\x1b[2J", "\u202e1", "99999999999999999999", strings.Repeat("9", 1<<20), long + "x", strings.Repeat("-", 1<<20),
	} {
		_, err := sleepWeek(text, "12:00", "13:00")
		if err == nil || !strings.HasPrefix(err.Error(), "weekdays ") || !strings.Contains(err.Error(), "want days") || len(err.Error()) > 500 {
			t.Errorf("%.60q: %.600v", text, err)
		}
	}
}

// TestSleepTimes is the same for the two times.
func TestSleepTimes(t *testing.T) {
	for _, tc := range []struct {
		sleepAt, wakeUpAt string
		want              string // of every day
	}{
		{"20:00", "08:00", "20:00-08:00"},
		{"8:5", "9:5", "08:05-09:05"},
		{" 20 : 00 ", "08:00", "20:00-08:00"},
		{"*/12:30", "*/12:45", "00:30-00:45, 12:30-12:45"},
		{"8-10/2:30", "9,11:00", "08:30-09:00, 10:30-11:00"},
		{"20/2:00", "21/2:00", "20:00-21:00, 22:00-23:00"},
		{"12:*/20", "12:10/20", "12:00-12:10, 12:20-12:30, 12:40-12:50"},
		{"20:00,30", "08:0-10/5", "20:00-08:00"},
		{"?:0", "*:30", "00:00-00:30, 01:00-01:30, 02:00-02:30"},
	} {
		asleep, err := sleepWeek("*", tc.sleepAt, tc.wakeUpAt)
		if err != nil {
			t.Errorf("%q, %q: %v", tc.sleepAt, tc.wakeUpAt, err)
			continue
		}
		window := asleep.window()
		if got := window.String(); got != tc.want && !strings.HasPrefix(got, tc.want+", 03:") {
			t.Errorf("%q, %q: %q, want %q", tc.sleepAt, tc.wakeUpAt, got, tc.want)
		}
	}
	for text, want := range map[string]string{
		"": "HH:MM", "20": "HH:MM", "20:00:00": "HH:MM", "20.00": "HH:MM", "@daily": "HH:MM", "TZ=0": "HH:MM", "\x00": "HH:MM",
		":": "want hours", ":00": "want hours", "24:00": "want hours", "-1:00": "want hours", "Mon:00": "want hours", "20 3:": "want hours", ",:00": "want hours",
		"8-24:00": "want hours", "22-6:00": "want hours", "@every 1h:00": "want hours", "x:y": "want hours", "\x00:00": "want hours", strings.Repeat("9", 1<<20) + ":00": "want hours",
		"20:": "want minutes", "20:60": "want minutes", "20:-1": "want minutes", "20:*/0": "want minutes", "20:0 20 1": "want minutes", "20:,": "want minutes",
		"20:TZ=0": "want minutes", "20:TZ=UTC": "want minutes", "20:TZ=UTC 0": "want minutes", "20:CRON_TZ=": "want minutes", "20:@every 1h": "want minutes", "20:@": "want minutes",
		"20:0\x00": "want minutes", "20:\xff": "want minutes", "20:" + strings.Repeat("0,", 1<<16) + "x": "want minutes",
	} {
		for field, times := range map[string][2]string{"sleepAt ": {text, "08:01"}, "wakeUpAt ": {"20:01", text}} {
			_, err := sleepWeek("*", times[0], times[1])
			if err == nil || !strings.HasPrefix(err.Error(), field) || !strings.Contains(err.Error(), want) || len(err.Error()) > 500 {
				t.Errorf("%s%.60q: %.600v, want %s", field, text, err, want)
			}
		}
	}
}

// kubeGreenParse parses the line that kube-green makes of a SleepInfo's fields.
func kubeGreenParse(weekdays, at string) (schedule cron.Schedule, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	split := strings.Split(at, ":")
	if weekdays == "" || len(split) != 2 {
		return nil, fmt.Errorf("%q at %q", weekdays, at)
	}
	return cron.ParseStandard(fmt.Sprintf("%s %s * * %s", split[1], split[0], weekdays))
}

// FuzzCron: no text makes it panic, an error names the field and is no longer than a
// line or two, and what it accepts sleeps when kube-green lets sleep, which asks its
// parser's schedules for the next point, the one and the other in turn.
func FuzzCron(f *testing.F) {
	for _, seed := range [][3]string{
		{"1-5", "20:00", "08:00"}, {"Mon-Fri", "20:00", "8:0"}, {"MON,WED", "*/8:30", "4/8:30"}, {"*/2", "8-10/2:30", "9,11:00"}, {"1-5/2", "*:*/7", "*:3/7"},
		{"", "20:00", "08:00"}, {"7", "20", ":"}, {"0-6", "22-6:00", "24:00"}, {"TZ=0", "20:TZ=0", "@every:1h"}, {"@every 1h", "20:@every 1h", "x:y"},
		{"?", "?:?", "*-9:*-9"}, {"\x00", "20:\x00", "\xff:1"}, {",", ",:0", "1:,"}, {" ", "20 1:00", "8 1:00"}, {"CRON_TZ=UTC 1", "1:CRON_TZ=UTC 1", "1/2/3:1-2-3"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	monday := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, weekdays, sleepAt, wakeUpAt string) {
		asleep, err := sleepWeek(weekdays, sleepAt, wakeUpAt)
		if err != nil {
			if text := err.Error(); len(text) > 500 || !strings.HasPrefix(text, "weekdays ") && !strings.HasPrefix(text, "sleepAt ") && !strings.HasPrefix(text, "wakeUpAt ") {
				t.Errorf("%.600q", text)
			}
			return
		}
		sleep, err1 := kubeGreenParse(weekdays, sleepAt)
		wake, err2 := kubeGreenParse(weekdays, wakeUpAt)
		if err1 != nil || err2 != nil {
			t.Fatalf("kube-green takes neither or not both: %v, %v", err1, err2)
		}
		// It starts awake; a week later it is as it is every week.
		at, state := monday.AddDate(0, 0, -7).Add(-time.Minute), false
		next := func() time.Time {
			if state {
				return wake.Next(at)
			}
			return sleep.Next(at)
		}
		for {
			change := next()
			for m := max(0, int(at.Sub(monday)/time.Minute)); m < minutesPerWeek && m < int(change.Sub(monday)/time.Minute); m++ {
				if asleep[m] != state {
					t.Fatalf("minute %d: asleep %v, want %v", m, asleep[m], state)
				}
			}
			if !change.Before(monday.AddDate(0, 0, 7)) {
				return
			}
			at, state = change, !state
		}
	})
}
