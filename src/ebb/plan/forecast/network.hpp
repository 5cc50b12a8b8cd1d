// How fast messages between the ranks of a job are: what a forecast of several processes is made from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::plan {

// A message of n bytes takes seconds_per_message + n / bytes_per_second.
struct Network {
  double seconds_per_message = 5e-5;  // alpha
  double bytes_per_second = 1e9;      // 1 / beta
  int ranks = 1;                      // that it was measured with
  int hosts = 1;

  double seconds(double bytes) const { return seconds_per_message + bytes / bytes_per_second; }
  bool operator==(const Network&) const = default;
};

std::string to_string(const Network& network);  // the file's content
bool parse(const std::string& text, Network& into);

// As people write one: its speed, and what a message takes beside that. "10Gbit/s,50us"; "1.2GB/s" has the default.
// An Error of one line where it is none.
Network parse_network(std::string_view text);
std::string readable(const Network& network);  // "10 Gbit/s, 50 us"

// Of these hosts, in whatever order, as it was measured last; kept beside the machine's figures. False: it
// never was, or nothing is kept.
bool known_network(const std::vector<std::string>& hosts, Network& into);
void keep_network(const std::vector<std::string>& hosts, const Network& network);

}  // namespace ebb::plan
