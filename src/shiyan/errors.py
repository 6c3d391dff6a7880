"""The one kind of error that a user is meant to read."""


class UserError(Exception):
    """Something a user can put right: what was wrong, where, what is allowed, what to do.

    The message is one sentence without a traceback; stages and the command line
    print it on stderr and exit with `exit_code`.

    Attributes:
        exit_code: 1 where the input was wrong, 2 where the call was.
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
