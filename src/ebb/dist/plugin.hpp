// What Ebb asks of a message library: a table of C functions, in a shared object of its own that is opened at
// run time (open.hpp). Ebb knows no MPI, and a single process loads none.
//
// All functions are called by one thread, the one that has called open. Those that give an int give 0, or a
// code that error() puts into words. Nothing waits but open and close.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Changes with the table: a plugin of another number is refused.
inline constexpr std::uint32_t kEbbDistInterface = 1;
// In place of a count: a message that did not fit.
inline constexpr std::size_t kEbbDistTooLong = ~std::size_t{0};
inline constexpr char kEbbDistEntry[] = "ebb_dist_plugin";

struct EbbDistAddress {
  std::int32_t peer, channel, tag;
};

struct EbbDistPlugin {
  std::uint32_t interface;  // kEbbDistInterface of its build
  std::uint32_t bytes;      // of this table

  void (*library)(char* name, std::size_t bytes);  // "Open MPI v4.1.4, …"
  void (*error)(int code, char* text, std::size_t bytes);

  int (*open)(int channels);  // joins the ranks that were started together; each channel by itself
  int (*close)();             // leaves, together with them
  int (*rank)();
  int (*size)();
  void (*host)(char* name, std::size_t bytes);

  int (*send)(EbbDistAddress to, const void* from, std::size_t bytes, std::uint64_t* request);
  int (*receive)(EbbDistAddress from, void* to, std::size_t bytes, std::uint64_t* request);
  int (*test)(std::uint64_t* request, int* over, std::size_t* bytes);  // kEbbDistTooLong
  int (*cancel)(std::uint64_t* request);
  void (*abort)(int code);  // ends all ranks
};

using EbbDistEntry = const EbbDistPlugin* (*)();

}  // extern "C"
