# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What we rely on in Nextcloud, asserted word for word against the stand-in and against a real server.

The stand-in half always runs. The other half runs too when the environment names a server (a throw-away one: people
are added, files written, and all of it removed again):

    NEXTCLOUD_TEST_URL                 its address, without a slash at its end
    NEXTCLOUD_TEST_APP_ID, _SECRET, _VERSION, _PORT
                                       an ExApp that `python -m tests.contract.probe` told how to register
    NEXTCLOUD_TEST_ADMIN               an admin's user id; "admin" when not set
    NEXTCLOUD_TEST_ALICE_PASSWORD, _BOB_PASSWORD, _CAROL_PASSWORD
                                       of the existing users alice, bob and carol
    NEXTCLOUD_TEST_OCC                 how to run its occ, so that queued webhooks are sent off at once; without it the
                                       server's own worker or cron must do so within two minutes

Where the two differ, the stand-in is wrong.
"""
