// Where text for people goes: a terminal, a file, a pipe, or nowhere any more.
//
// Writing never ends the process and never throws: a closed pipe or a terminal that has gone is
// noted, and nothing more is written. It does not wait for a reader that has stopped reading, either.
#pragma once

#include <string_view>

namespace ebb::train {

class Terminal {
 public:
  explicit Terminal(int descriptor);  // a copy is taken; a closed one is as good as gone
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  bool can_redraw() const { return can_redraw_; }    // a terminal whose cursor can be moved
  bool has_color() const { return has_color_; }      // and NO_COLOR is not set
  bool has_unicode() const { return has_unicode_; }  // by the locale
  bool gone() const { return descriptor_ < 0; }

  // Asked anew each time, since windows are resized: the window's, and where COLUMNS is less, that;
  // 80 where neither is known.
  int columns() const;
  bool in_foreground() const;  // false: another job owns the terminal, and would be drawn over

  // All of it; false where it was not taken, as nobody has read for that long. What is torn by that
  // is ended with a line break before the next.
  bool write(std::string_view text, int most_milliseconds = 0);

 private:
  bool write_ready(std::string_view text, int most_milliseconds);

  int descriptor_ = -1;
  bool can_redraw_ = false, has_color_ = false, has_unicode_ = false, torn_ = false;
};

// Opens /dev/null in place of those of stdin, stdout and stderr that are closed, so that no file of
// the program takes their number and what is printed. For the beginning of a program's main.
void open_standard_streams();

}  // namespace ebb::train
