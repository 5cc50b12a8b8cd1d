#include "ebb/dist/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/dist/launch.hpp"
#include "ebb/dist/shared_way.hpp"

namespace ebb::dist {
namespace {

using Kind = Timetable::Entry::Kind;

constexpr std::uint64_t kVoteBytes = 64;  // what says that it is the same vote (dist/collectives)
constexpr std::uint64_t kVoteTags = 1 << 16;  // above those of letters

struct Todo {
  Kind kind;  // a vote is letters
  int letter;
  double seconds;
};

struct Letter {
  int rank = 0, channel = 0, other = -1;  // its other end, once both have started
  int behind = -1;                        // the next one that waits for its other end
  std::uint64_t bytes = 0;
  double began = 0;
  bool sent = false, over = false;
};

// Letters of one sender, receiver and tag meet in the order in which they are started.
struct Channel {
  int first[2] = {-1, -1}, last[2] = {-1, -1};  // that wait: received, sent
  int way = -1;
};

struct Way {
  SharedWay jobs;
  bool within = false;   // a host
  int from = 0, to = 0;  // hosts
  std::size_t counted = 0;
  double due = SharedWay::kNever;
};

struct Link {  // of a host, one way
  std::size_t messages = 0;
  std::vector<int> ways;
};

struct Host {
  SharedWay cores;
  Link out, in;
  std::size_t copies = 0;
  std::vector<int> within;  // ways
  double due = SharedWay::kNever;
};

struct RankState {
  std::vector<Todo> todo;
  std::size_t at = 0;
  int first_letter = 0;
  double since = 0;    // when it began to compute or to wait
  int waits_for = -1;  // letter
  double ended = -1;
};

struct Event {
  double time;
  std::uint64_t count;
  enum class Of : std::uint8_t { host, way, arrival } of;
  int index;
  bool operator<(const Event& other) const {
    return std::pair(time, count) > std::pair(other.time, other.count);
  }
};

class Simulation {
 public:
  Simulation(std::span<const Timetable> tables, const Cluster& cluster)
      : cluster_(cluster), ranks_(tables.size()) {
    const int per_host = std::max(1, cluster.ranks_per_host);
    hosts_.resize((tables.size() + static_cast<std::size_t>(per_host) - 1) /
                  static_cast<std::size_t>(per_host));
    result_.ranks.resize(tables.size());
    for (std::size_t r = 0; r < tables.size(); ++r) lay_out(tables[r], static_cast<int>(r));
  }

  Simulated run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) go_on(static_cast<int>(r));
    while (!events_.empty()) {
      const Event e = events_.top();
      events_.pop();
      now_ = std::max(now_, e.time);
      happen(e);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) check_ended(static_cast<int>(r));
    for (const RankState& r : ranks_) result_.seconds = std::max(result_.seconds, r.ended);
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      result_.ranks[r].waiting += result_.seconds - ranks_[r].ended;
    return std::move(result_);
  }

 private:
  int host_of(int rank) const { return rank / std::max(1, cluster_.ranks_per_host); }
  RankState& rank(int r) { return ranks_[static_cast<std::size_t>(r)]; }
  Host& host(int h) { return hosts_[static_cast<std::size_t>(h)]; }
  Letter& letter(int l) { return letters_[static_cast<std::size_t>(l)]; }
  Way& way(int w) { return ways_[static_cast<std::size_t>(w)]; }
  Simulated::Rank& times(int r) { return result_.ranks[static_cast<std::size_t>(r)]; }

  // ---- before it begins

  int add_letter(int rank, bool sent, int peer, std::uint64_t tag, std::uint64_t bytes) {
    if (peer < 0 || static_cast<std::size_t>(peer) >= ranks_.size() || peer == rank)
      throw Error(fmt::format("simulate: rank {} has a letter for rank {} of {}", rank, peer,
                              ranks_.size()));
    const auto from = static_cast<std::uint64_t>(sent ? rank : peer);
    const auto to = static_cast<std::uint64_t>(sent ? peer : rank);
    const auto [at, fresh] =
        channel_of_.try_emplace(from << 44 | to << 24 | tag, static_cast<int>(channels_.size()));
    if (fresh) channels_.emplace_back();
    Letter l;
    l.rank = rank;
    l.channel = at->second;
    l.bytes = bytes;
    l.sent = sent;
    letters_.push_back(l);
    return static_cast<int>(letters_.size()) - 1;
  }

  void lay_out(const Timetable& table, int r) {
    RankState& state = rank(r);
    const int first = static_cast<int>(letters_.size());
    for (const Timetable::Letter& l : table.letters)
      add_letter(r, l.sent, l.peer, static_cast<std::uint64_t>(l.tag), l.bytes);
    for (const Timetable::Entry& e : table.entries) {
      if (e.kind == Kind::vote)
        add_vote(r);
      else
        state.todo.push_back({e.kind, first + e.letter, e.seconds});
    }
    times(r).sent = table.sent();
  }

  // By dissemination, as dist/collectives does it.
  void add_vote(int r) {
    const int size = static_cast<int>(ranks_.size());
    std::uint64_t tag = kVoteTags;
    for (int far = 1; far < size; far *= 2, ++tag) {
      const int out = add_letter(r, true, (r + far) % size, tag, kVoteBytes);
      const int in = add_letter(r, false, (r + size - far) % size, tag, kVoteBytes);
      for (const auto& [kind, l] : {std::pair(Kind::start, out), std::pair(Kind::start, in),
                                    std::pair(Kind::wait, in), std::pair(Kind::wait, out)})
        rank(r).todo.push_back({kind, l, 0});
    }
  }

  // ---- ranks

  void go_on(int r) {
    RankState& state = rank(r);
    for (; state.at < state.todo.size(); ++state.at) {
      const Todo& todo = state.todo[state.at];
      if (todo.kind == Kind::compute) {
        state.since = now_;
        host(host_of(r)).cores.add(now_, todo.seconds, r);
        share_cores(host_of(r));
        return;
      }
      if (todo.kind == Kind::start) {
        start(todo.letter);
      } else if (!letter(todo.letter).over) {
        state.since = now_;
        state.waits_for = todo.letter;
        return;
      }
    }
    state.ended = now_;
  }

  void start(int l) {
    Letter& mine = letter(l);
    mine.over = false;
    mine.other = -1;
    Channel& channel = channels_[static_cast<std::size_t>(mine.channel)];
    int& first = channel.first[!mine.sent];
    if (first < 0) {
      mine.behind = -1;
      int& last = channel.last[mine.sent];
      (channel.first[mine.sent] < 0 ? channel.first[mine.sent] : letter(last).behind) = l;
      last = l;
      return;
    }
    const int other = first;
    first = letter(other).behind;
    if (letter(other).bytes != mine.bytes)
      throw Error(fmt::format("simulate: ranks {} and {} do not agree on a letter: {} and {} bytes",
                              mine.rank, letter(other).rank, mine.bytes, letter(other).bytes));
    mine.other = other;
    letter(other).other = l;
    mine.began = letter(other).began = now_;
    ++result_.messages;
    begin(mine.sent ? l : other, channel);
  }

  // ---- messages; each by its sent letter

  void begin(int l, Channel& channel) {
    const Letter& sent = letter(l);
    if (channel.way < 0) channel.way = way_of(sent.rank, letter(sent.other).rank);
    const double work = static_cast<double>(sent.bytes);
    way(channel.way).jobs.add(now_, work, l);
    share(channel.way);
  }

  int way_of(int from, int to) {
    const bool within = host_of(from) == host_of(to);
    const auto a = static_cast<std::uint64_t>(within ? from : host_of(from));
    const auto b = static_cast<std::uint64_t>(within ? to : host_of(to));
    const auto [at, fresh] = way_of_.try_emplace(
        (within ? std::uint64_t{1} << 63 : 0) | a << 31 | b, static_cast<int>(ways_.size()));
    if (!fresh) return at->second;
    const int w = at->second, h = host_of(from), g = host_of(to);
    ways_.push_back({SharedWay(within), within, h, g});
    if (within) {
      host(h).within.push_back(w);
    } else {
      host(h).out.ways.push_back(w);
      host(g).in.ways.push_back(w);
    }
    return w;
  }

  void over(int l) {
    letter(l).over = true;
    const int r = letter(l).rank;
    RankState& state = rank(r);
    if (state.waits_for != l) return;
    state.waits_for = -1;
    times(r).waiting += now_ - state.since;
    times(r).exposed += now_ - std::max(state.since, letter(l).began);
    ++state.at;
    go_on(r);
  }

  // ---- what is shared

  // More or fewer are on this way than before: so all that shares something with it changes.
  void share(int w) {
    Way& changed = way(w);
    const std::size_t was = std::exchange(changed.counted, changed.jobs.at_work());
    if (changed.within) {
      host(changed.from).copies += changed.counted - was;
      share_cores(changed.from);
      return;
    }
    Link &out = host(changed.from).out, &in = host(changed.to).in;
    out.messages += changed.counted - was;
    in.messages += changed.counted - was;
    for (const auto* ways : {&out.ways, &in.ways})
      for (const int other : *ways)
        if (way(other).counted > 0 || other == w) set_rate(other);
  }

  void set_rate(int w) {
    Way& v = way(w);
    double rate = 0;
    if (v.within) {
      const Host& h = host(v.from);
      rate = cluster_.within.bytes_per_second * part_of_cores(h);
      if (cluster_.memory_bytes > 0)
        rate = std::min(
            rate, cluster_.memory_bytes / static_cast<double>(std::max<std::size_t>(1, h.copies)));
    } else {
      const std::size_t most = std::max(host(v.from).out.messages, host(v.to).in.messages);
      rate =
          cluster_.between.bytes_per_second / static_cast<double>(std::max<std::size_t>(1, most));
    }
    v.jobs.set_rate(now_, rate);
    expect(v.due, v.jobs.next(), Event::Of::way, w);
  }

  double part_of_cores(const Host& h) const {
    const double wanted = static_cast<double>(h.cores.at_work()) * std::max(1, cluster_.threads) +
                          static_cast<double>(h.copies);
    return cluster_.cores > 0 && wanted > cluster_.cores ? cluster_.cores / wanted : 1;
  }

  void share_cores(int h) {
    Host& here = host(h);
    here.cores.set_rate(now_, part_of_cores(here));
    expect(here.due, here.cores.next(), Event::Of::host, h);
    for (const int w : here.within)
      if (way(w).counted > 0) set_rate(w);
  }

  // ---- events

  // What was expected before of the same does not come.
  void expect(double& due, double time, Event::Of of, int index) {
    if (due == time) return;
    due = time;
    if (time < SharedWay::kNever) events_.push({time, ++count_, of, index});
  }

  void happen(const Event& e) {
    if (e.of == Event::Of::arrival) return over(e.index);
    double& due = e.of == Event::Of::host ? host(e.index).due : way(e.index).due;
    if (due != e.time) return;
    due = SharedWay::kNever;
    if (e.of == Event::Of::host) {
      const int r = host(e.index).cores.pop(now_);
      share_cores(e.index);
      times(r).busy += now_ - rank(r).since;
      ++rank(r).at;
      return go_on(r);
    }
    const int l = way(e.index).jobs.pop(now_);
    const bool within = way(e.index).within;
    share(e.index);
    const double late = (within ? cluster_.within : cluster_.between).seconds_per_message;
    events_.push({now_ + late, ++count_, Event::Of::arrival, letter(l).other});
    over(l);
  }

  void check_ended(int r) {
    const RankState& state = rank(r);
    if (state.ended >= 0) return;
    const Letter& l = letter(state.waits_for);
    throw Error(fmt::format(
        "simulate: rank {} waits for ever for a letter {} of {} bytes, its entry {} of {}", r,
        l.sent ? "that it sends" : "that comes", l.bytes, state.at + 1, state.todo.size()));
  }

  const Cluster& cluster_;
  std::vector<RankState> ranks_;
  std::vector<Host> hosts_;
  std::vector<Letter> letters_;
  std::vector<Channel> channels_;
  std::vector<Way> ways_;
  std::unordered_map<std::uint64_t, int> channel_of_, way_of_;
  std::priority_queue<Event> events_;
  std::uint64_t count_ = 0;
  double now_ = 0;
  Simulated result_;
};

// Copying reads and writes each byte; one core alone moves about half of what memory gives.
constexpr double kCopied = 2, kOfOneCore = 2;

double part(const Simulated& s, double Simulated::Rank::*of) {
  double all = 0;
  for (const Simulated::Rank& r : s.ranks) all += r.*of;
  const double whole = s.seconds * static_cast<double>(s.ranks.size());
  return whole > 0 ? all / whole : 0;
}

}  // namespace

double Simulated::waiting() const { return part(*this, &Rank::waiting); }
double Simulated::exposed() const { return part(*this, &Rank::exposed); }

Cluster cluster_of(const plan::Machine& machine, int ranks_per_host) {
  Cluster c;
  c.memory_bytes = machine.bytes / kCopied;
  c.within = {.seconds_per_message = 5e-6, .bytes_per_second = c.memory_bytes / kOfOneCore};
  c.ranks_per_host = ranks_per_host;
  c.threads = machine.threads;
  c.cores = cores();
  return c;
}

Simulated simulate(std::span<const Timetable> ranks, const Cluster& cluster) {
  return Simulation(ranks, cluster).run();
}

}  // namespace ebb::dist
