// What all ranks do together: vote, gather, broadcast. Each makes the same calls in the same order; a rank
// that does not is named, with what it did instead.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/memory/memory.hpp"
#include "ebb/dist/post.hpp"

namespace ebb::dist {

inline constexpr std::size_t kLargestValue = 64 << 10;  // bytes, of one rank

class Collectives {
 public:
  explicit Collectives(Post& post) : post_(post) {}

  // Whether all have said yes; every rank gets the same answer, and none before all have voted. In log2(ranks)
  // rounds: in round k each tells the rank 2^k further on what it knows.
  bool vote(bool yes, const char* what);
  // What each rank has given, by rank, on all ranks.
  std::vector<std::string> gather(std::string_view mine, const char* what);
  // What rank 0 has given, on all.
  std::string broadcast(std::string_view of_first, const char* what);

 private:
  struct Head {                        // before every value, and all of a vote
    std::uint32_t magic = 0x45424231;  // of this form, in the sender's byte order
    std::uint32_t yes = 0;
    std::uint64_t number = 0;  // of the call
    std::uint64_t bytes = 0;
    char what[40] = {};
  };
  // A vote; others begin with one, too: so a rank that makes another call is found, and does not wait for ever.
  bool exchange(bool yes, const char* what);
  Head head(const char* what, std::uint64_t bytes = 0, bool yes = false) const;
  void check(const Head& theirs, const Head& mine, int from) const;
  void spread(memory::Buffer& all, Head head);  // from rank 0 on, along a tree

  Post& post_;
  std::mutex lock_;  // one call at a time
  std::uint64_t calls_ = 0;
};

}  // namespace ebb::dist
