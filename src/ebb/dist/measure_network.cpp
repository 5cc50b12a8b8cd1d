#include "ebb/dist/measure_network.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <span>
#include <string>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/dist/post.hpp"

namespace ebb::dist {
namespace {

constexpr std::size_t kSmall = 8, kLarge = 4 << 20;
constexpr int kSmallTimes = 300, kWarm = 30, kLargeTimes = 9;
constexpr std::size_t kPieces =
    8;  // in turn, so that what is sent comes from memory and not from a cache

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// To the other and back, again and again: half of the time of the middle one.
double ping_pong(Post& post, int other, bool begins, std::size_t bytes, int times) {
  const memory::Buffer sent(bytes * kPieces, "network speed", Category::data);
  const memory::Buffer room(bytes * kPieces, "network speed", Category::data);
  for (const auto* all : {&sent, &room}) std::fill_n(all->data(), all->size(), std::byte{1});
  std::vector<double> took;
  for (int i = 0; i < times; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) % kPieces * bytes;
    Message out = Message::to({other, Channel::data, 0}, {sent.data() + at, bytes});
    Message in = Message::from({other, Channel::data, 0}, {room.data() + at, bytes});
    const double begin = now();
    post.start(in);
    if (begins) post.start(out);
    post.wait(in);
    if (!begins) post.start(out);
    post.wait(out);
    took.push_back((now() - begin) / 2);
  }
  const auto middle = took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2);
  std::nth_element(took.begin(), middle, took.end());
  return *middle;
}

Link between(World& world, int from, int to) {
  Link link{from, to, 0, 0};
  if (world.rank() == from || world.rank() == to) {
    const bool begins = world.rank() == from;
    const int other = begins ? to : from;
    Post& post = *world.post();
    ping_pong(post, other, begins, kSmall, kWarm);
    link.seconds_per_message = ping_pong(post, other, begins, kSmall, kSmallTimes);
    ping_pong(post, other, begins, kLarge, 1);
    const double seconds = ping_pong(post, other, begins, kLarge, kLargeTimes);
    link.bytes_per_second = kLarge / std::max(seconds - link.seconds_per_message, 1e-9);
  }
  return world.gather_values(link)[static_cast<std::size_t>(from)];
}

}  // namespace

Measured measure_network(World& world) {
  if (world.size() < 2)
    throw Error("network: one process has nobody to send to; start two or more");
  Measured all;
  const int links = world.size() == 2 ? 1 : world.size();
  for (int r = 0; r < links; ++r) all.links.push_back(between(world, r, (r + 1) % world.size()));
  std::set<std::string> hosts;
  for (int r = 0; r < world.size(); ++r) hosts.insert(world.host(r));
  plan::Network& n = all.network;
  n = {0, all.links[0].bytes_per_second, world.size(), static_cast<int>(hosts.size())};
  for (const Link& link : all.links) {
    n.seconds_per_message = std::max(n.seconds_per_message, link.seconds_per_message);
    n.bytes_per_second = std::min(n.bytes_per_second, link.bytes_per_second);
  }
  return all;
}

}  // namespace ebb::dist
