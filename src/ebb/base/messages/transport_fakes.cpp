#include "ebb/base/messages/transport_fakes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/rng.hpp"

namespace ebb {
namespace {

double machine_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Letter {
  memory::Buffer bytes;
  double due = 0;
  int from = 0, to = 0;
  Transport::Request until_received = 0;  // of the sender, who waits for that; 0: nobody
};
struct Waiting {
  int rank = 0;
  Address address;
  bool receives = false;
  std::span<std::byte> room;
  std::size_t bytes = 0;
  bool over = false;
};
// from, to, channel, tag: in here order is kept.
using Lane = std::tuple<int, int, Channel, int>;

}  // namespace

struct FakeNetwork::State {
  State(int count, Options given) : ranks(count), options(std::move(given)) {
    if (!options.clock) options.clock = machine_seconds;
  }

  double drawn() {  // in [0, 1)
    return static_cast<double>(draw({options.seed, 0}, 0, draws++)) / 4294967296.0;
  }
  bool silent(int rank) const { return silenced.contains(rank); }

  const int ranks;
  Options options;
  mutable std::mutex lock;
  std::uint64_t draws = 0;
  std::map<Lane, std::deque<Letter>> lanes;
  std::map<Transport::Request, Waiting> waiting;
  Transport::Request last = 0;
  std::set<int> silenced, broken;
  std::vector<int> aborted, closed;
};

namespace {

class FakeTransport final : public Transport {
 public:
  FakeTransport(std::shared_ptr<FakeNetwork::State> net, int rank)
      : net_(std::move(net)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return net_->ranks; }
  std::string host() const override { return fmt::format("fake{}", rank_); }

  Request send(const Address& to, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(net_->lock);
    check(to, bytes.size());
    if (net_->broken.contains(to.peer))
      throw Error(fmt::format("fake network: rank {} cannot be reached", to.peer));
    Letter letter{memory::Buffer(bytes.size(), "fake message", Category::data), 0, rank_, to.peer};
    if (!bytes.empty()) std::memcpy(letter.bytes.data(), bytes.data(), bytes.size());
    auto& lane = net_->lanes[{rank_, to.peer, to.channel, to.tag}];
    letter.due = net_->options.clock() + net_->drawn() * net_->options.delay_seconds;
    if (!lane.empty()) letter.due = std::max(letter.due, lane.back().due);
    const bool lazy = net_->drawn() < 0.5;
    const Request id = ++net_->last;
    net_->waiting[id] = {rank_, to, false, {}, bytes.size(), !lazy};
    if (lazy) letter.until_received = id;
    lane.push_back(std::move(letter));
    return id;
  }

  Request receive(const Address& from, std::span<std::byte> bytes) override {
    const std::lock_guard lock(net_->lock);
    check(from, bytes.size());
    net_->waiting[++net_->last] = {rank_, from, true, bytes, 0, false};
    return net_->last;
  }

  std::optional<std::size_t> test(Request id) override {
    const std::lock_guard lock(net_->lock);
    const auto at = net_->waiting.find(id);
    if (at == net_->waiting.end()) throw Error("fake network: a request is tested that is spent");
    if (net_->silent(rank_)) return {};  // as one that does not run
    if (at->second.receives) deliver(id, at->second);
    if (!at->second.over) return {};
    const std::size_t bytes = at->second.bytes;
    net_->waiting.erase(at);
    return bytes;
  }

  void cancel(Request id) override {
    const std::lock_guard lock(net_->lock);
    net_->waiting.erase(id);
  }
  void abort(int) override {
    const std::lock_guard lock(net_->lock);
    net_->aborted.push_back(rank_);
  }
  void close() override {
    const std::lock_guard lock(net_->lock);
    net_->closed.push_back(rank_);
  }

 private:
  void check(const Address& a, std::size_t bytes) const {
    if (a.peer < 0 || a.peer >= net_->ranks || a.tag < 0 || a.tag > kLargestTag ||
        bytes > kLargestMessage)
      throw Error(fmt::format("fake network: rank {} of {}, tag {}, {} bytes", a.peer, net_->ranks,
                              a.tag, bytes));
  }

  // The receive that was begun first has the first letter of its lane.
  void deliver(Request id, Waiting& mine) {
    for (const auto& [other, w] : net_->waiting)
      if (other < id && w.receives && !w.over && w.rank == rank_ && w.address == mine.address)
        return;
    const Lane lane{mine.address.peer, rank_, mine.address.channel, mine.address.tag};
    const auto at = net_->lanes.find(lane);
    if (at == net_->lanes.end() || at->second.empty()) return;
    Letter& letter = at->second.front();
    if (letter.due > net_->options.clock() || net_->silent(letter.from)) return;
    const std::size_t bytes = letter.bytes.size();
    const bool fits = bytes <= mine.room.size();
    if (fits && bytes) std::memcpy(mine.room.data(), letter.bytes.data(), bytes);
    if (letter.until_received) {
      const auto sender = net_->waiting.find(letter.until_received);
      if (sender != net_->waiting.end()) sender->second.over = true;
    }
    at->second.pop_front();
    if (!fits) {
      const std::size_t room = mine.room.size();
      net_->waiting.erase(id);
      throw MessageTooLong(
          fmt::format("fake network: a message of {} bytes, and room for {}", bytes, room));
    }
    mine.bytes = bytes;
    mine.over = true;
  }

  std::shared_ptr<FakeNetwork::State> net_;
  int rank_;
};

}  // namespace

FakeNetwork::FakeNetwork(int ranks, Options options)
    : state_(std::make_shared<State>(ranks, std::move(options))) {}
FakeNetwork::~FakeNetwork() = default;

std::unique_ptr<Transport> FakeNetwork::open(int rank) {
  return std::make_unique<FakeTransport>(state_, rank);
}
void FakeNetwork::silence(int rank) {
  const std::lock_guard lock(state_->lock);
  state_->silenced.insert(rank);
}
void FakeNetwork::wake(int rank) {
  const std::lock_guard lock(state_->lock);
  state_->silenced.erase(rank);
}
void FakeNetwork::fail_sends(int rank) {
  const std::lock_guard lock(state_->lock);
  state_->broken.insert(rank);
}
std::vector<int> FakeNetwork::aborted() const {
  const std::lock_guard lock(state_->lock);
  return state_->aborted;
}
std::vector<int> FakeNetwork::closed() const {
  const std::lock_guard lock(state_->lock);
  return state_->closed;
}
std::uint64_t FakeNetwork::under_way() const {
  const std::lock_guard lock(state_->lock);
  std::uint64_t count = 0;
  for (const auto& [lane, letters] : state_->lanes) count += letters.size();
  return count;
}

}  // namespace ebb
