// When what a communicator did is reported.
#ifndef RINGPRESS_INTERNAL_REPORT_TIME_H_
#define RINGPRESS_INTERNAL_REPORT_TIME_H_

namespace ringpress {

/// When a report is written.
enum class ReportTime {
  kEnd,   // No other thread uses what it is about any more.
  kExit,  // Other threads may be in calls of it, and devices and the libraries around may have gone
          // before: a report only reads what is in memory, and gives up a lock that is kept.
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_REPORT_TIME_H_
